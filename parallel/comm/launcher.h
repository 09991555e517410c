#pragma once
#include <functional>
#include <optional>
#include <string>

// Environment variables set by the launcher (mpirun, srun).
namespace trireme {

// Value of an environment variable; nullopt if it is not set.
using Variables = std::function<std::optional<std::string>(const char*)>;
// Reads the environment of this process.
std::optional<std::string> environment_variable(const char* name);

// Number of ranks started by mpirun or by a Slurm step. 1 without a launcher, as in a batch script,
// which has the variables of the job but not those of a step.
int launched_ranks(const Variables& variables);

// Rank of this process as set by the launcher; 0 without a launcher.
int launched_rank(const Variables& variables);

// Whether the launcher provides the process management interface (PMI) that Open MPI needs: mpirun
// does, and srun with --mpi=pmix.
bool has_wired_ranks(const Variables& variables);

// Throws EnvironmentError, naming the fix, if several processes were launched but each would run as
// a world of one. `joined_ranks` is the size of the MPI world; 1 before MPI_Init.
void refuse_unjoined_ranks(const Variables& variables, int joined_ranks);

// Why starts of these ranks may fail now and then, with the fix; empty if no reason is known.
std::string launch_risk(const Variables& variables);

}  // namespace trireme
