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
  // Both outlive it.
  WaitingRanks(Communicator& ranks, MachinePace& pace);

  // Collective. As cores slow down for seconds, several samples at different times are needed.
  void sample();
  // Sets Network::lockstep, or DeviceProfile::idle_time_used, of a profile whose `cores` and
  // `ranks_per_node` are set.
  void fill(DeviceProfile& profile) const;

 private:
  double seconds(bool works);

  Communicator& ranks_;
  const bool share_cores_;
  Stream stream_;
  Stopwatch stopwatch_;
  CpuMatmul product_{384};
  int count_ = 1;  // products of a sample
  // All ranks by themselves; all, or one half after the other, with a barrier.
  double alone_ = 0, waiting_ = 0;
};

// Whether ranks of a node outnumber its cores.
bool share_cores(const Communicator& node);

}  // namespace trireme
