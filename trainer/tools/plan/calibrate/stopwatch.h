#pragma once
#include <functional>

#include "parallel/comm/communicator.h"
#include "trainer/tools/plan/calibrate/machine_pace.h"

namespace trireme {

// Times work that all ranks of a machine do at the same time: the median of `samples`, each
// relative to the machine's pace before and after it, at the pace's first sample. The first call,
// in which libraries select kernels, is not counted. On a GPU calls are queued without waits
// between them, as in a step.
class Stopwatch {
 public:
  using Work = std::function<void()>;

  // All outlive it; `stream` receives the work.
  Stopwatch(Communicator& ranks, Stream& stream, MachinePace& pace, std::size_t samples = 5)
      : ranks_(ranks), stream_(stream), pace_(pace), samples_(samples) {}

  // Seconds of a call of work without communication. Ranks repeat it for a fixed time, so that all
  // of them are busy throughout; the result is the throughput of all ranks together.
  double alone(const Work& work);
  // Seconds of a call of collective work, repeated equally often on every rank.
  double together(const Work& work);
  // Adds a sample of the pace. Collective.
  void sample_pace();

 private:
  double median_of(const std::function<double()>& calls_per_second);
  double calls_per_second(const Work& work, int calls);
  int calls_of_a_spell(const Work& work);

  Communicator& ranks_;
  Stream& stream_;
  MachinePace& pace_;
  const std::size_t samples_;
  Stream host_;
};

}  // namespace trireme
