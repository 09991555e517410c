#pragma once
#include <omp.h>
#include <time.h>

namespace trireme::cpu {

// Processor time in seconds that `threads` OpenMP threads have used so far, in all. Each
// reads its own clock: the process's clock lags behind for threads that are running.
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
