#pragma once
#include <functional>

#include "parallel/comm/communicator.h"

namespace trireme {

// Times work that all ranks of a machine do at the same time, as the median of a few samples. The
// first call, in which libraries select kernels, is not counted.
class Stopwatch {
 public:
  using Work = std::function<void()>;

  // `ranks` outlives it.
  explicit Stopwatch(Communicator& ranks) : ranks_(ranks) {}

  // Seconds of a call of work without communication. Ranks repeat it for a fixed time, so that all
  // of them are busy throughout; the result is the throughput of all ranks together.
  double alone(const Work& work);
  // Seconds of a call of collective work, repeated equally often on every rank.
  double together(const Work& work);

 private:
  Communicator& ranks_;
  Stream stream_;
};

}  // namespace trireme
