#include "parallel/comm/launcher.h"

#include <algorithm>
#include <cstdlib>

#include "model/base/error.h"

namespace trireme {
namespace {

int number(const std::optional<std::string>& text) {
  return text ? static_cast<int>(std::strtol(text->c_str(), nullptr, 10)) : 0;
}

}  // namespace

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

int launched_ranks(const Variables& variables) {
  // mpirun may run inside a Slurm step, whose variables then count mpirun's own processes.
  if (const int ranks = number(variables("OMPI_COMM_WORLD_SIZE")); ranks > 0) return ranks;
  int ranks = 1;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                           "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE"}) {
    ranks = std::max(ranks, number(variables(name)));
  }
  // A batch script has SLURM_NTASKS too, but is a single process.
  if (variables("PMIX_RANK") && !variables("SLURM_STEP_NUM_TASKS")) {
    ranks = std::max(ranks, number(variables("SLURM_NTASKS")));
  }
  if (variables("TORCHELASTIC_RUN_ID")) ranks = std::max(ranks, number(variables("WORLD_SIZE")));
  return ranks;
}

int launched_rank(const Variables& variables) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (const auto rank = variables(name)) return number(rank);
  }
  // A batch script has SLURM_PROCID too, but represents the whole job.
  return variables("SLURM_STEP_NUM_TASKS") ? number(variables("SLURM_PROCID")) : 0;
}

bool has_wired_ranks(const Variables& variables) {
  return variables("PMIX_RANK") || variables("OMPI_COMM_WORLD_SIZE");
}

void refuse_unjoined_ranks(const Variables& variables, int joined_ranks) {
  const int ranks = launched_ranks(variables);
  if (ranks == 1 || joined_ranks > 1) return;
  const bool by_slurm = variables("SLURM_STEP_NUM_TASKS").has_value();
  throw on_all_ranks(EnvironmentError(
      say(ranks, " processes were launched, but MPI is not connected: each would train alone",
          " into the same folder; ",
          by_slurm ? "launch with 'srun --mpi=pmix' ('srun --mpi=list' shows whether this Slurm "
                     "has it) or with mpirun"
                   : "launch with the mpirun of Open MPI, or with 'srun --mpi=pmix'")));
}

std::string launch_risk(const Variables& variables) {
  const int nodes = number(variables("SLURM_STEP_NUM_NODES"));
  if (nodes < 2 || !variables("PMIX_RANK") || variables("SLURM_PMIX_FENCE") == "ring") return "";
  return say("srun started ranks on ", nodes, " nodes without SLURM_PMIX_FENCE=ring: with Slurm ",
             "22.05 ranks may leave MPI_Init before all have arrived, and some crash; ",
             "export it before srun");
}

}  // namespace trireme
