#pragma once
#include <functional>

#include "parallel/comm/communicator.h"

namespace trireme {

// Times work that all ranks of a machine do at the same time, as the median of a few samples. The
// first call, in which libraries select kernels, is not counted. On a GPU calls are queued without
// waits between them, as in a step.
class Stopwatch {
 public:
  using Work = std::function<void()>;

  // Both outlive it; `stream` receives the work.
  Stopwatch(Communicator& ranks, Stream& stream) : ranks_(ranks), stream_(stream) {}

  // Seconds of a call of work without communication. Ranks repeat it for a fixed time, so that all
  // of them are busy throughout; the result is the throughput of all ranks together.
  double alone(const Work& work);
  // Seconds of a call of collective work, repeated equally often on every rank.
  double together(const Work& work);

 private:
  int calls_of_a_spell(const Work& work);

  Communicator& ranks_;
  Stream& stream_;
  Stream host_;
};

}  // namespace trireme
