#pragma once
#include "parallel/comm/communicator.h"
#include "trainer/tools/plan/calibrate/cpu_matmul.h"
#include "trainer/tools/plan/calibrate/stopwatch.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Measures what CPU ranks of a node lose by waiting for each other. Where each has a core, all wait
// for the slowest. Where they share cores, those of ranks that wait should speed up the others.
class WaitingRanks {
 public:
  // All outlive it. `half_pace`: of matmuls in bfloat16.
  WaitingRanks(Communicator& ranks, MachinePace& pace, MachinePace& half_pace);

  // Collective. As cores slow down for seconds, several samples at different times are needed.
  void sample();
  // Sets Network::lockstep, or DeviceProfile::idle_time_used, of a profile whose `cores` and
  // `ranks_per_node` are set, and lowers the efficiency of its matmuls in bfloat16 by what these
  // lose more than float32's.
  void fill(DeviceProfile& profile) const;

 private:
  // Matmuls of a sample, one after the other.
  class Products {
   public:
    Products(Communicator& ranks, MachinePace& pace, DType dtype);
    // Seconds of all ranks by themselves.
    double alone();
    // Seconds of those of the ranks that work, until all know of their end.
    double until_all_end(bool works);

   private:
    Communicator& ranks_;
    Stream stream_;
    Stopwatch stopwatch_;
    CpuMatmul product_;
    int count_ = 1;
  };

  const bool share_cores_;
  const bool in_first_half_;  // of the ranks
  const int ranks_;
  Products products_, half_products_;
  // Sums of samples: all ranks by themselves; all, or one half after the other, with a barrier.
  double alone_ = 0, waiting_ = 0, half_alone_ = 0, half_waiting_ = 0;
};

// Whether ranks of a node outnumber its cores.
bool share_cores(const Communicator& node);

}  // namespace trireme
