#pragma once
#include <cstddef>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"
#include "parallel/comm/transfer.h"

namespace trireme {

enum class Reduce : std::uint8_t { kSum, kMax };

// An ordered set of ranks that talk to each other. Work is queued on the stream
// like any kernel; on a planning stream shapes are checked and nothing moves. A
// communicator of one is legal and moves at most a tensor into another, so no
// caller ever asks whether it is alone.
//
// All ranks of a group call its collectives in one order with tensors of the
// same type and size; messages from one rank to another arrive in the order they
// were started. Tensors of a call have one dtype and do not overlap, except
// where the call says they may. Reductions give every rank the same bits,
// whatever the sizes of groups' buffers or the library's algorithms.
//
// Ranks here are positions in the group, 0 to size() - 1. A peer that failed,
// or that sent something else than was asked for, throws PeerError; a peer that
// never comes is waited for: ending such a wait is the watchdog's work.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Memory it took when it was made, for messages on their way; it never grows.
  // The planner's class "communication".
  virtual std::size_t buffer_bytes() const { return 0; }

  // Every element becomes the reduction over all ranks; bfloat16 and float16
  // are summed in float32 and rounded once. A NaN stays one under kMax as well.
  virtual void all_reduce(Stream&, Tensor, Reduce) = 0;
  // whole [size, part...] = every rank's part, in rank order. `part` may be the
  // rank's own place in `whole`: then nothing of it is moved here.
  virtual void all_gather(Stream&, Tensor whole, Tensor part) = 0;
  // part = the sum over ranks of their whole [size, part...] at this rank's
  // place, summed as all_reduce does. `part` may be the rank's own place in
  // `whole`; the rest of `whole` is left as it is.
  virtual void reduce_scatter(Stream&, Tensor part, Tensor whole) = 0;
  // received [size, block...] at place r = what rank r had in sent [size, block...]
  // at this rank's place.
  virtual void all_to_all(Stream&, Tensor received, Tensor sent) = 0;
  // The tensor of rank `root` becomes everybody's.
  virtual void broadcast(Stream&, Tensor, int root) = 0;
  // Returns when every rank has called it, each with the work queued on its stream
  // before done.
  virtual void barrier(Stream&) = 0;

  // The same three while the caller does other work, where the group can (see
  // works_beside); else done when the call returns. The tensors belong to the transfer
  // until wait(). Started in one order on all ranks, and after what is queued on the
  // stream at the start.
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
  // Whether collectives that are started run beside the caller's work.
  virtual bool works_beside() const { return false; }

  // The message leaves, or is awaited, while the caller does other work.
  [[nodiscard]] virtual Transfer start_send(Stream&, Tensor, int to) = 0;
  [[nodiscard]] virtual Transfer start_receive(Stream&, Tensor, int from) = 0;
  // A send may wait until its receiver has come: two ranks that both send first and
  // then receive wait for ever.
  void send(Stream& stream, Tensor tensor, int to) { start_send(stream, tensor, to).wait(); }
  void receive(Stream& stream, Tensor tensor, int from) {
    start_receive(stream, tensor, from).wait();
  }
};

}  // namespace trireme
