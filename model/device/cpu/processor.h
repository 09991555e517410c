#pragma once
#include <omp.h>
#include <time.h>

#include <string>

namespace trireme::cpu {

struct Processor {
  std::string name;      // "AMD EPYC"; "unknown processor" if not available
  std::string stepping;  // family, model and stepping: "25.17.1"; may be empty
};

// The machine's first processor, from /proc/cpuinfo.
const Processor& processor();

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
