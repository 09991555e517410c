#pragma once
#include <string>
#include <vector>

#include "parallel/comm/launcher.h"
#include "trainer/supervise/launch/hosts.h"

namespace trireme {

// The nodes of the Slurm job whose batch script (or salloc) this process belongs to.
struct SlurmAllocation {
  std::vector<HostPlace> places;       // with the tasks that the job asked for on each
  std::vector<std::string> addresses;  // where Slurm reaches them
  std::string cpus_per_task;           // empty: not asked for
};

bool is_in_slurm_allocation(const Variables& variables);

// Asks scontrol. Throws EnvironmentError.
SlurmAllocation read_slurm_allocation(const Variables& variables);

// "2(x3),1" of SLURM_TASKS_PER_NODE: 2 2 2 1. Throws EnvironmentError.
std::vector<int> parse_tasks_per_node(const std::string& text);

}  // namespace trireme
