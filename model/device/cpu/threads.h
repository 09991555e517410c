#pragma once
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace trireme::cpu {

// Sets the number of compute threads of this process to `count`, or if that is 0 to the number of
// available cores: those of its affinity mask, but at most its fraction among `neighbours`
// processes on the machine. Returns the number.
inline int use_threads(std::int64_t count, int neighbours = 1) {
  const int share = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / neighbours);
  const int threads = count > 0 ? static_cast<int>(count) : std::min(omp_get_num_procs(), share);
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  return threads;
}

// Number of compute threads available to this thread.
inline int threads() {
  return omp_get_max_threads();
}

// Calls body(first, last) for disjoint ranges that cover [0, count), each at least `grain` long, on
// the process's compute threads. The partition depends on the number of threads: a body with
// reproducible bits must treat every index independently.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  const std::int64_t most = (count + grain - 1) / std::max<std::int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<std::int64_t>(most, omp_get_max_threads()));
  if (threads <= 1 || omp_in_parallel()) {
    body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
    const std::int64_t first = count * i / n, last = count * (i + 1) / n;
    if (first < last) body(first, last);
  }
}

}  // namespace trireme::cpu
