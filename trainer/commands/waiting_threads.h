#pragma once

namespace trireme {

// Starts this program anew with the same words where its OpenMP threads would spin long while they
// wait for each other, which takes their cores from the threads that work when other programs
// compute too (measured beside two busy processes on two cores: 3.5 times as slow). libgomp reads
// how long only when it is loaded. Does nothing where the user has said how to wait
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT), or when it fails.
void spin_briefly(char** words);

}  // namespace trireme
