#pragma once
#include <vector>

#include "trainer/tools/plan/calibrate/cpu_matmul.h"

namespace trireme {

// Speed of a machine whose speed changes, such as virtual cores that share theirs with others, as
// that of a matmul. What is measured relative to samples around it belongs together, whenever it
// was measured. One in bfloat16 tells more of products in it: the matrix unit of a core that is
// shared with another machine is sometimes twice as fast, and all else is not.
class MachinePace {
 public:
  // The pace of a GPU is always 1. `sharing`: ranks per core, at least 1.
  explicit MachinePace(Device device, DType dtype = DType::kF32, double sharing = 1);

  // The clock of a rank that is at work, in seconds. Of one that shares its core, the time that the
  // core gave it, times `sharing`: what all take together if they are at work throughout, without
  // what begins and ends with turns of the scheduler.
  double now() const;
  double sharing() const { return sharing_; }
  // Matmuls per second of this thread, repeated for so many seconds.
  double sample(double seconds);
  // Adds a sample's mean over all ranks.
  void add(double rate) { rates_.push_back(rate); }
  // The first that was added, of which all measurements are seconds.
  double first() const { return rates_.front(); }
  // The mean of all without interrupted ones, over the first.
  double mean_over_first() const;

 private:
  const bool changes_;
  const double sharing_;
  Stream stream_;
  CpuMatmul product_;
  std::vector<double> rates_;
};

}  // namespace trireme
