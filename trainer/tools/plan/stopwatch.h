#pragma once
#include <functional>

#include "parallel/comm/communicator.h"

namespace trireme {

// Times what ranks that share a machine do at the same time: the median of a few spells. The first
// call, in which libraries choose their kernels, is not counted.
class Stopwatch {
 public:
  using Work = std::function<void()>;

  // `ranks` outlives it.
  explicit Stopwatch(Communicator& ranks) : ranks_(ranks) {}

  // Seconds of work that each rank does alone, as often as fits into a spell, so that none has the
  // machine for itself before the others are done: by what all get done together, however they
  // take turns on the cores.
  double alone(const Work& work);
  // Of work that needs all ranks, as often on each.
  double together(const Work& work);

 private:
  Communicator& ranks_;
  Stream stream_;
};

}  // namespace trireme
