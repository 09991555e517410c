#pragma once
#include "parallel/comm/communicator.h"

namespace trireme {

// The messages of a step of a ring: every rank may send to the rank that is so many places after
// it, and receive from the one as many before, or both the other way round.
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
