#pragma once
#include "parallel/comm/communicator.h"
#include "trainer/engine/step_plan.h"

namespace trireme {

// FLOPs of a step and the utilization they amount to, against the measured peak of a matrix
// product.
class FlopsMeter {
 public:
  // Collective: sums the planned FLOPs of all ranks.
  FlopsMeter(const EnginePlan& plan, Communicator& ranks, DType compute, Device device);

  // From here on steps are those of this plan. Collective.
  void follow(const EnginePlan& plan, Communicator& ranks);

  // Measures this rank's peak, or takes the highest that the user's cache has for such a device.
  void measure_peak(int threads);
  double peak() const { return peak_; }              // FLOP/s of this rank
  double useful_of_step() const { return useful_; }  // of a full step, all ranks

  struct Utilization {
    double mfu = 0, hfu = 0;
  };
  // Of a step that took so long and had that fraction of a full one's sequences.
  Utilization utilization(double seconds, double fraction);

 private:
  double peak_of_step(double seconds, double fraction);

  double useful_ = 0, issued_ = 0;  // of a full step, all ranks
  double issued_here_ = 0;          // of this rank
  int ranks_;
  DType compute_;
  Device device_;
  double peak_ = 0;
  int repeated_ = 0;  // measurements of it
};

}  // namespace trireme
