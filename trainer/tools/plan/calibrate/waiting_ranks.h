#pragma once
#include <vector>

#include "parallel/comm/communicator.h"
#include "trainer/tools/plan/calibrate/cpu_matmul.h"
#include "trainer/tools/plan/calibrate/machine_pace.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Measures what CPU ranks of a node lose by waiting for each other. Where each has a core, all wait
// for the slowest. Where they share cores, those of ranks that wait should speed up the others; but
// ranks that exchange messages also wait for one that waits for its core.
class WaitingRanks {
 public:
  // All outlive it. Of `clock` only now() is used.
  WaitingRanks(Communicator& ranks, const MachinePace& clock);

  // Collective. As cores slow down for seconds, several samples at different times are needed.
  void sample();
  // Of a profile whose `cores` and `ranks_per_node` are set: sets Network::lockstep and, where
  // ranks share cores, DeviceProfile::idle_time_used. Otherwise lowers the efficiency of its
  // matmuls in bfloat16 by what these lose more than float32's.
  void fill(DeviceProfile& profile) const;

 private:
  // Matmuls one after the other.
  class Products {
   public:
    Products(Communicator& ranks, const MachinePace& clock, DType dtype);
    // Seconds of the ranks that work, until all know of their end, over those that the work alone
    // took them: above 1 if they wait, below 1 if they get the cores of the others. The ranks wait
    // for each other after every `between_messages` too, if it is not 0.
    double slowdown(bool works, int between_messages = 0);

   private:
    Communicator& ranks_;
    const MachinePace& clock_;
    Stream stream_;
    CpuMatmul product_;
    int count_ = 1;
  };

  const bool share_cores_;
  const bool in_first_half_;  // of the ranks
  const int ranks_;
  Products products_, half_products_;
  // Slowdowns: of all ranks, of all in bfloat16, and of one half after the other.
  std::vector<double> of_all_, of_all_in_bfloat16_, of_one_half_;
};

// Ranks of a node that share a core, at least 1; and whether they do.
double ranks_per_core(const Communicator& node);
bool share_cores(const Communicator& node);

}  // namespace trireme
