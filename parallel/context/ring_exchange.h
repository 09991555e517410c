#pragma once
#include "model/layers/micro_batch.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The messages of a ring's step between a rank and those `step` places after and before it, each
// way or one way alone.
class RingExchange {
 public:
  // What this rank sends to `to` and receives from `from`; an empty tensor: nothing.
  struct Messages {
    Tensor sent, received;
    int to = 0, from = 0;
  };
  // Queued. The tensors belong to the exchange until wait().
  void start(Communicator& ranks, Stream& stream, const Messages& messages);
  void wait();

 private:
  Transfer sent_, received_;
};

}  // namespace trireme
