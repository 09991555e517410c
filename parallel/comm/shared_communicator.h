#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/shared_barrier.h"
#include "parallel/comm/shared_memories.h"
#include "parallel/comm/worker_thread.h"

namespace trireme {

// Decorates the communicator of ranks on one host. If the tensors of a reduction, a gather or an
// exchange are in shared memory (World::share), each rank reads the others' tensors in place:
// nothing is sent, and asynchronous calls run on a worker thread. Other calls are forwarded after
// pending asynchronous calls are done. Sums are bit-identical to those of the forwarded
// communicator.
//
// The tensors of a call are in shared memory on all ranks or on none: the tensor of all_reduce, the
// whole of reduce_scatter, of all_gather either the whole or the part, and of all_to_all what is
// sent, even if that is empty.
class SharedCommunicator final : public Communicator {
 public:
  // `pages` is shared memory of the group, SharedBarrier::bytes per rank; `local_ranks` are the
  // group's ranks in `memories`, which outlives it. `name` is used in messages.
  SharedCommunicator(std::unique_ptr<Communicator> other, std::unique_ptr<SharedMemory> pages,
                     const comm::SharedMemories& memories, std::vector<int> local_ranks,
                     std::string name);
  // During stack unwinding, pending calls that wait for a peer are abandoned.
  ~SharedCommunicator() override;

  int rank() const override { return other_->rank(); }
  int size() const override { return other_->size(); }
  std::size_t buffer_bytes() const override { return other_->buffer_bytes(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) override;
  Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  bool is_async() const override { return true; }
  Transfer start_send(Stream& stream, Tensor tensor, int to) override {
    return other_->start_send(stream, tensor, to);
  }
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override {
    return other_->start_receive(stream, tensor, from);
  }

 private:
  using Place = comm::SharedMemories::Place;
  // Location of this rank's tensor in shared memory; nullopt if the call must be forwarded.
  std::optional<Place> shared(const Stream& stream, const Tensor& tensor) const;
  std::optional<Place> shared_part(const Stream& stream, const Tensor& whole,
                                   const Tensor& part) const;
  void settle(const Stream& stream);
  // Where `bytes` of the tensor that a rank has published are in this process; null if the rank
  // has published another call than `what`.
  std::byte* published_by(int rank, std::uint32_t what, std::size_t bytes) const;
  [[noreturn]] void refuse(const char* call, int rank, std::int64_t count) const;
  // Barrier; resolves the published tensor of every rank in this process's mappings.
  void meet_with(const char* call, std::uint32_t what, const Tensor& tensor, const Place& place);
  void reduce_all(const Tensor& tensor, Reduce reduce, const Place& place);
  void reduce_part(const Tensor& part, const Tensor& whole, const Place& place);
  void gather_parts(const Tensor& whole, const Tensor& part, const Place& place);
  void exchange_blocks(const RankBlocks& received, const RankBlocks& sent, const Place& place);

  std::unique_ptr<Communicator> other_;
  const comm::SharedMemories& memories_;
  std::vector<int> local_ranks_;
  std::string name_;
  comm::SharedBarrier barrier_;
  // Scratch of one call, allocated once: the tensors of all ranks, and their shards summed here.
  std::vector<std::byte*> theirs_;
  std::vector<const std::byte*> contributions_;
  comm::WorkerThread worker_;
};

}  // namespace trireme
