#pragma once
#include <string>
#include <vector>

#include <sys/types.h>

namespace trireme {

// Cleanup of what a killed incarnation leaves on this host. Only processes and files of the current
// user are considered.

// Processes with the environment variable `word` ("NAME=value"), without this process. If `also` is
// given, only those that have that variable too, or none of its name.
std::vector<pid_t> processes_with(const std::string& word, const std::string& also = "");

// Kills these processes and waits until they are gone, for at most `seconds` (a process may hang in
// the kernel). Returns the processes that are left.
std::vector<pid_t> end_processes(const std::string& word, const std::string& also = "",
                                 double seconds = 5);

// Removes Open MPI's shared-memory segments in /dev/shm that no process uses. Recent ones are kept:
// they may belong to a job that is starting. Returns the number removed.
int sweep_segments();

// Removes the session folders of mpiruns that are gone from the temporary folder: one that is
// killed leaves its own, and if its supervisor was killed before, only the next one removes it.
// Returns the number removed.
int sweep_sessions();

}  // namespace trireme
