#pragma once
#include <mpi.h>

#include <string>
#include <vector>

#include "model/device/memory.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/mpi_calls.h"

namespace trireme {

// A Communicator over MPI for tensors in host memory. Internal to parallel/comm; made by
// World::split.
//
// Sums do not use MPI's reductions, whose order (and so bits) depends on the algorithm that the
// library selects by message size. Instead each rank receives all contributions to its own shard,
// sums them by one fixed tree, and the shards are all-gathered. Contributions pass through a
// fixed-size buffer in chunks.
class MpiCommunicator final : public Communicator {
 public:
  // Takes ownership of `comm`; collective over it. `buffer_bytes` is equal on all ranks, at least
  // kLeastBufferBytes for each. The World outlives the communicator.
  MpiCommunicator(MPI_Comm comm, std::string name, std::size_t buffer_bytes);
  // During stack unwinding the MPI communicator is not freed: a new one with the same context could
  // receive messages still in flight.
  ~MpiCommunicator() override;

  static constexpr std::size_t kLeastBufferBytes = 64;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t buffer_bytes() const override { return buffer_.bytes(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override;

 private:
  comm::CallSite site(const char* call, int peer = -1) const {
    return {call, name_, rank_, size_, peer};
  }
  bool has_work(const Stream& stream, const Tensor& tensor) const;
  // Elements per rank that fit into the buffer.
  std::int64_t piece_of(DType dtype) const;
  Tensor buffered(int rank, std::int64_t count, DType dtype) const;
  template <class Outgoing, class Incoming>
  void exchange(const char* call, const Outgoing& outgoing, const Incoming& incoming);
  template <class ShareOf>
  void reduce_own_share(const char* call, const ShareOf& share_of, const Tensor& out,
                        Reduce reduce);
  void all_reduce_small(const Tensor& tensor, Reduce reduce);
  void all_reduce_piece(const Tensor& piece, Reduce reduce);

  MPI_Comm comm_;
  std::string name_;
  int exceptions_;
  int rank_ = 0;
  int size_ = 1;
  Memory buffer_;
  // Requests of one exchange, allocated once.
  std::vector<MPI_Request> requests_;
  std::vector<const std::byte*> contributions_;
  std::vector<int> counts_;
  std::vector<int> offsets_;
};

}  // namespace trireme
