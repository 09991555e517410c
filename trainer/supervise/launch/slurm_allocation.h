#pragma once
#include <string>
#include <vector>

#include "parallel/comm/launcher.h"
#include "trainer/supervise/launch/hosts.h"

namespace trireme {

// The nodes of the Slurm job that runs this process (sbatch script or salloc).
struct SlurmAllocation {
  std::vector<HostSlots> places;       // slots: tasks per node requested by the job
  std::vector<std::string> addresses;  // network addresses known to Slurm
  std::string cpus_per_task;           // empty: not requested
};

bool is_in_slurm_allocation(const Variables& variables);

// Runs scontrol. Throws EnvironmentError.
SlurmAllocation read_slurm_allocation(const Variables& variables);

// Parses SLURM_TASKS_PER_NODE: "2(x3),1" is 2 2 2 1. Throws EnvironmentError.
std::vector<int> parse_tasks_per_node(const std::string& text);

}  // namespace trireme
