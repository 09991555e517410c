#pragma once
#include <functional>
#include <optional>
#include <string>

// What the launcher (mpirun, srun) tells its processes through the environment.
namespace trireme {

// A variable of the environment; nullopt when it is not set.
using Variables = std::function<std::optional<std::string>(const char*)>;
// The process's own.
std::optional<std::string> environment_variable(const char* name);

// Ranks the launcher started, as mpirun or a Slurm step tells its processes; 1 when
// nobody launched us, as in a batch script, which has the job's variables but no step's.
int launched_ranks(const Variables& variables);

// This process among them, as the launcher says; 0 when nobody launched us.
int launched_rank(const Variables& variables);

// Whether the launcher offers what Open MPI needs to join the ranks: mpirun does, and
// srun with --mpi=pmix.
bool has_wired_ranks(const Variables& variables);

// Throws EnvironmentError, naming the fix, when several processes were started that
// would each take themselves for the only one. `joined_ranks` is the number of ranks
// that found each other, 1 before MPI is asked.
void refuse_unjoined_ranks(const Variables& variables, int joined_ranks);

}  // namespace trireme
