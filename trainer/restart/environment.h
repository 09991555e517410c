#pragma once
#include <functional>
#include <optional>
#include <string>

namespace trireme {

// A variable of the environment; nullopt when it is not set.
using Variables = std::function<std::optional<std::string>(const char*)>;

// The process's own.
std::optional<std::string> environment_variable(const char* name);

// Ranks the launcher started, as mpirun or a Slurm step with PMI tells its children; 1
// when nobody launched us.
int launched_ranks(const Variables& variables);

// Throws EnvironmentError when the launcher started more than one rank: this version
// would train the same run several times into one folder.
void refuse_many_ranks(const Variables& variables = environment_variable);

}  // namespace trireme
