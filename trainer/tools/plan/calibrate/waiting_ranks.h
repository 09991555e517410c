#pragma once
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "trainer/tools/plan/calibrate/cpu_matmul.h"
#include "trainer/tools/plan/calibrate/machine_pace.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Measures what CPU ranks of a node lose by waiting for each other. Where each has a core, all wait
// for the slowest. Where they share cores, those of ranks that wait should speed up the others; but
// ranks that exchange messages also wait for one that waits for its core: the longer, the more they
// compute between messages (lockstep), and a little after any computation (latency).
class WaitingRanks {
 public:
  using Groups = std::vector<std::unique_ptr<Communicator>>;

  // All outlive it. `groups`: smaller ones of the ranks', as of Network::within_groups, if they
  // share cores. Of `clock` only now() is used.
  WaitingRanks(Communicator& ranks, const Groups& groups, const MachinePace& clock);

  // Collective. As cores slow down for seconds, several samples at different times are needed.
  void sample();
  // Of a profile whose `cores`, `ranks_per_node` and `within_groups` are set: sets
  // Network::lockstep and, where ranks share cores, those of groups, the latencies within the node
  // and DeviceProfile::idle_time_used. Otherwise lowers the efficiency of its matmuls in bfloat16
  // by what these lose more than float32's.
  void fill(DeviceProfile& profile) const;

 private:
  // Seconds of all ranks from their first matmul until all know of the end of the last; of these
  // the mean of the ranks that compute in which they do so; and the messages meanwhile.
  struct Spell {
    double passed = 0, computing = 0;
    int messages = 0;

    // Above 1 if ranks wait, below 1 if they get the cores of those that do not compute.
    double slowdown() const { return passed / computing; }
    double between_messages() const { return computing / messages; }
    double waiting_for_message() const { return (passed - computing) / messages; }
  };

  // Matmuls one after the other.
  class Products {
   public:
    Products(Communicator& ranks, const MachinePace& clock, std::int64_t side, DType dtype);
    // After every `between_messages` a small one is reduced in `group`, one of those that make up
    // the ranks, if it is not null.
    Spell spell(bool computes, Communicator* group = nullptr, int between_messages = 1);

   private:
    Communicator& ranks_;
    const MachinePace& clock_;
    Stream stream_;
    CpuMatmul product_;
    int count_ = 1;
  };

  // Of a group whose ranks share cores: Spell::slowdown() of much computation between messages, and
  // between_messages() and waiting_for_message() of little.
  struct GroupWaits {
    Communicator* group;
    std::vector<double> slowdowns, between, waiting;
  };

  Communicator& ranks_;
  const bool share_cores_;
  const bool in_first_half_;  // of the ranks
  Products products_, half_products_, little_;
  // Where ranks share cores: of groups, the last of all ranks, and slowdowns of one half of the
  // ranks after the other. Otherwise slowdowns of all, and of all in bfloat16.
  std::vector<GroupWaits> waits_of_groups_;
  std::vector<double> of_one_half_, of_all_, of_all_in_bfloat16_;
};

// Ranks of a node that share a core, at least 1; and whether they do.
double ranks_per_core(const Communicator& node);
bool share_cores(const Communicator& node);

}  // namespace trireme
