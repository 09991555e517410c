#pragma once
#include <cstddef>
#include <list>
#include <memory>

#include "model/device/event.h"
#include "model/device/memory.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Moves device tensors over a host communicator through a pinned buffer, in chunks. Used for ranks
// that share a GPU, and without NCCL. Results have the bits of the host communicator. Every call
// synchronizes the host with the device.
//
// A message is staged whole, in a pinned buffer of its size that is cached for later messages.
class StagedCommunicator final : public Communicator {
 public:
  // Tensors of devices other than `device` are forwarded to `host` unchanged. `buffer_bytes` is
  // equal on all ranks, at least kLeastBufferBytes for each.
  StagedCommunicator(std::unique_ptr<Communicator> host, Device device, std::size_t buffer_bytes);

  static constexpr std::size_t kLeastBufferBytes = 16;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::size_t buffer_bytes() const override { return host_->buffer_bytes() + buffer_.bytes(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override;

 private:
  class BlockCounts;
  class Message;
  // A pinned buffer for one message at a time.
  struct Slot {
    explicit Slot(std::size_t bytes, Device device)
        : memory(Memory::pinned(bytes, device)), emptied(device) {}
    Memory memory;
    Event emptied;
    bool taken = false;
  };

  bool is_host(const Stream& stream) const { return stream.device() != device_; }
  // Elements of each of `parts` that fit into the buffer.
  std::int64_t piece_of(DType dtype, std::int64_t parts) const;
  Tensor buffer(DType dtype, std::int64_t count) const;
  std::int64_t longest_block(const BlockCounts& outgoing);
  Slot& take_slot(std::size_t bytes);
  template <class Work>
  void in_pieces(Stream& stream, std::int64_t count, std::int64_t most, const Work& work);

  std::unique_ptr<Communicator> host_;
  Device device_;
  Stream host_stream_;
  Memory buffer_;
  Event emptied_;  // no copy from the buffer to the device is pending
  std::list<Slot> slots_;
};

}  // namespace trireme
