#pragma once
#include <string>
#include <vector>

#include <sys/types.h>

namespace trireme {

// What an incarnation leaves on this machine when it is killed. Only processes and files of
// this user are looked at.

// The processes that have `word` ("NAME=value") in their environment, this one left out; where
// `also` is given they have that word, too, or none of its name.
std::vector<pid_t> processes_with(const std::string& word, const std::string& also = "");

// Kills them and returns once they are gone, or after `seconds` (a process may hang in the
// kernel). Returns those that are still there.
std::vector<pid_t> end_processes(const std::string& word, const std::string& also = "",
                                 double seconds = 5);

// Removes the segments of Open MPI in /dev/shm that no process uses any more. Returns how
// many. Those of a job that is just starting are left: they are young.
int sweep_segments();

// What mpirun keeps for the time of a job below the temporary folder, once it was killed.
void sweep_session(pid_t mpirun);

}  // namespace trireme
