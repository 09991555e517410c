#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "parallel/comm/communicator.h"

namespace trireme {

// Bytes that a rank sends in one group. A collective counts with the least volume of any algorithm:
// among n ranks, 2 (n - 1) / n D for an all-reduce of D bytes, (n - 1) / n D for its reduce-scatter
// and all-gather (Patarasuk and Yuan 2009).
struct Sent {
  double bytes = 0;
  std::int64_t calls = 0;
  bool operator==(const Sent&) const = default;
};

// Keyed by group name.
using Traffic = std::map<std::string, Sent, std::less<>>;

// One rank of a group that does not exist, for planning streams: checks tensors like every
// communicator, records messages on the stream and counts the bytes that the rank would send.
class PlannedCommunicator final : public Communicator {
 public:
  // `group` names the group in recorded messages; it and `sent` outlive them.
  PlannedCommunicator(const char* group, int rank, int size, std::size_t buffer_bytes, Sent& sent)
      : group_(group), rank_(rank), size_(size), buffer_bytes_(buffer_bytes), sent_(sent) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t buffer_bytes() const override { return buffer_bytes_; }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override;

 private:
  // Counts `share` of the tensor's bytes as sent.
  void record(const Stream& stream, Collective collective, const Tensor& tensor, double share);
  // Fraction of a whole that the other ranks hold.
  double others() const { return (size_ - 1.0) / size_; }

  const char* group_;
  int rank_;
  int size_;
  std::size_t buffer_bytes_;
  Sent& sent_;
};

}  // namespace trireme
