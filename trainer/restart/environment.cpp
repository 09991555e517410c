#include "trainer/restart/environment.h"

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
  int ranks = std::max(1, number(variables("OMPI_COMM_WORLD_SIZE")));
  ranks = std::max(ranks, number(variables("PMI_SIZE")));
  // SLURM_NTASKS is also set in a batch script and under `srun --mpi=none`, where every
  // process stands alone; PMI and PMIx variables are there only when srun wires ranks up.
  const bool is_wired = variables("PMIX_RANK") || variables("PMI_RANK");
  if (!is_wired) return ranks;
  const int step = number(variables("SLURM_STEP_NUM_TASKS"));
  return std::max(ranks, step > 0 ? step : number(variables("SLURM_NTASKS")));
}

void refuse_many_ranks(const Variables& variables) {
  const int ranks = launched_ranks(variables);
  if (ranks == 1) return;
  throw EnvironmentError(say("launched as ", ranks,
                             " ranks, but this version trains on one; start it without mpirun or "
                             "srun, or with -n 1"));
}

}  // namespace trireme
