#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/background.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/meeting.h"
#include "parallel/comm/shared_memories.h"

namespace trireme {

// Another communicator, of ranks on one host. Where the tensors of a reduction or a gather lie
// in memory they share (World::share), each rank reads the others' there: nothing is sent, and
// what was started is done by a thread beside the caller's. Everything else goes the other's
// way, once what was started is done. Sums are those of the other, bit for bit.
//
// On all ranks the tensors of a call lie in shared memory, or on none: of all_reduce the
// tensor, of reduce_scatter the whole, of all_gather the whole or, on all, the part.
class SharedCommunicator final : public Communicator {
 public:
  // `pages` are the group's own, of Meeting::kBytes; `local_ranks` are its ranks' in `memories`,
  // which outlives it. `name` is for messages.
  SharedCommunicator(std::unique_ptr<Communicator> other, std::unique_ptr<SharedMemory> pages,
                     const comm::SharedMemories& memories, std::vector<int> local_ranks,
                     std::string name);
  // Where an exception is on its way, what was started and waits for a peer is given up.
  ~SharedCommunicator() override;

  int rank() const override { return other_->rank(); }
  int size() const override { return other_->size(); }
  std::size_t buffer_bytes() const override { return other_->buffer_bytes(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, Tensor received, Tensor sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) override;
  Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  bool works_beside() const override { return true; }
  Transfer start_send(Stream& stream, Tensor tensor, int to) override {
    return other_->start_send(stream, tensor, to);
  }
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override {
    return other_->start_receive(stream, tensor, from);
  }

 private:
  using Place = comm::SharedMemories::Place;
  // Where everybody finds what this rank has to give; nothing: the other communicator's work.
  std::optional<Place> shared(const Stream& stream, const Tensor& tensor) const;
  std::optional<Place> shared_part(const Stream& stream, const Tensor& whole,
                                   const Tensor& part) const;
  void settle(const Stream& stream);
  // What every rank shows at `place`, found in this process.
  void meet_with(const char* call, std::uint32_t what, const Tensor& tensor, const Place& place);
  void reduce_all(const Tensor& tensor, Reduce reduce, const Place& place);
  void reduce_part(const Tensor& part, const Tensor& whole, const Place& place);
  void gather_parts(const Tensor& whole, const Tensor& part, const Place& place);

  std::unique_ptr<Communicator> other_;
  const comm::SharedMemories& memories_;
  std::vector<int> local_ranks_;
  std::string name_;
  comm::Meeting meeting_;
  // Of one call, taken once: everybody's tensor, and the shares of them that are summed here.
  std::vector<std::byte*> theirs_;
  std::vector<const std::byte*> contributions_;
  comm::Background background_;
};

}  // namespace trireme
