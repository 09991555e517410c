#pragma once

namespace trireme {

// Restarts this program with the same arguments and a short spin time of OpenMP threads. Long
// spinning slows down working threads if other programs use the cores (3.5 times with two busy
// processes on two cores). libgomp reads the spin time only when it is loaded. Does nothing if
// OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, or if the restart fails.
void spin_briefly(char** words);

}  // namespace trireme
