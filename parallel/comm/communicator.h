#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"
#include "parallel/comm/transfer.h"

namespace trireme {

enum class Reduce : std::uint8_t { kSum, kMax };

// What the ranks of a group send to each other besides reductions, gathers and broadcasts: nothing,
// point-to-point messages, or the blocks of all_to_all.
enum class Messages : std::uint8_t { kNone, kSent, kExchanged };

// Blocks of a tensor's elements, one for each rank of a group: of `counts` elements, or equal ones.
// They follow each other from the tensor's start on, or begin at `starts`. Other elements are not
// used.
struct RankBlocks {
  RankBlocks(const Tensor& equal) : tensor(equal) {}  // NOLINT: a tensor is its equal blocks
  RankBlocks(const Tensor& all, std::span<const std::int64_t> sizes,
             std::span<const std::int64_t> offsets = {})
      : tensor(all), counts(sizes), starts(offsets) {}

  // The block of rank `rank` of `ranks`.
  Tensor of(int rank, int ranks) const;
  // Elements of all blocks.
  std::int64_t count() const;

  Tensor tensor;
  std::span<const std::int64_t> counts = {};  // by rank; empty: equal blocks
  std::span<const std::int64_t> starts = {};  // by rank; empty: without gaps
};

// An ordered set of ranks. Work is enqueued on the stream like a kernel; on a planning stream
// shapes are checked and nothing moves. A communicator of size 1 is legal and at most copies one
// tensor to another, so callers need no special case.
//
// All ranks call the collectives of a group in the same order with tensors of the same dtype and
// size; messages between two ranks arrive in the order they were started. The tensors of a call
// have one dtype and do not overlap unless stated otherwise. Reductions return the same bits on
// every rank, independent of buffer sizes and of the library's algorithm.
//
// Ranks are positions in the group, 0 to size() - 1. A failed peer, or a message of the wrong size,
// throws PeerError. A peer that never arrives is waited for; the watchdog ends such waits.
//
// Over NCCL without ordered sums (see NcclGroups), sums round to their dtype at every hop and
// depend on the number of ranks; all ranks still get the same bits.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Memory for messages in flight, allocated at construction; constant. The planner's class
  // "communication".
  virtual std::size_t buffer_bytes() const { return 0; }

  // In place: every element becomes its reduction over all ranks. bfloat16 and float16 are summed
  // in float32 and rounded once. kMax propagates NaN.
  virtual void all_reduce(Stream&, Tensor, Reduce) = 0;
  // whole [size, part...] = the `part` of every rank, in rank order. `part` may be this rank's
  // slice of `whole`, which is then not copied.
  virtual void all_gather(Stream&, Tensor whole, Tensor part) = 0;
  // part = this rank's slice of the sum over ranks of whole [size, part...], summed as in
  // all_reduce. `part` may be this rank's slice of `whole`; the rest of `whole` is unchanged.
  virtual void reduce_scatter(Stream&, Tensor part, Tensor whole) = 0;
  // Block r of `received` = this rank's block of `sent` on rank r. Both have equal blocks, or both
  // have counts, in which case the caller knows those of its peers.
  virtual void all_to_all(Stream&, const RankBlocks& received, const RankBlocks& sent) = 0;
  // Copies the tensor of rank `root` to all ranks.
  virtual void broadcast(Stream&, Tensor, int root) = 0;
  // Returns when every rank has called it and the work enqueued on its stream before is done.
  virtual void barrier(Stream&) = 0;

  // Asynchronous forms of the three collectives. They run concurrently with the caller's work if
  // is_async(), otherwise they are done on return. The tensors belong to the transfer until
  // wait(). All ranks start them in the same order; each runs after the work already enqueued on
  // the stream.
  [[nodiscard]] virtual Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
    all_reduce(stream, tensor, reduce);
    return {};
  }
  [[nodiscard]] virtual Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) {
    all_gather(stream, whole, part);
    return {};
  }
  [[nodiscard]] virtual Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
    reduce_scatter(stream, part, whole);
    return {};
  }
  // Whether started collectives are asynchronous.
  virtual bool is_async() const { return false; }

  // Asynchronous send and receive.
  [[nodiscard]] virtual Transfer start_send(Stream&, Tensor, int to) = 0;
  [[nodiscard]] virtual Transfer start_receive(Stream&, Tensor, int from) = 0;
  // A send may block until its receiver arrives: two ranks that both send first and then receive
  // deadlock.
  void send(Stream& stream, Tensor tensor, int to) { start_send(stream, tensor, to).wait(); }
  void receive(Stream& stream, Tensor tensor, int from) {
    start_receive(stream, tensor, from).wait();
  }
};

}  // namespace trireme
