#pragma once
#include <omp.h>
#include <time.h>

namespace trireme::cpu {

// Total CPU time in seconds of `threads` OpenMP threads. Each thread reads its own clock, since the
// process clock lags behind for running threads.
inline double processor_seconds(int threads) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    total += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return total;
}

}  // namespace trireme::cpu
