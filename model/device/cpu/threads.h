#pragma once
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace trireme::cpu {

// From now on this process computes with `count` threads, or with every core it may
// use when that is 0: all it is bound to, but no more than its share among `neighbours`
// processes on the machine (1: it is alone). Returns the number.
inline int use_threads(std::int64_t count, int neighbours = 1) {
  const int share = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / neighbours);
  const int threads = count > 0 ? static_cast<int>(count) : std::min(omp_get_num_procs(), share);
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  return threads;
}

// How many this thread may compute with.
inline int threads() {
  return omp_get_max_threads();
}

// Calls body(first, last) over disjoint ranges that cover [0, count), on up to
// the process's number of threads, each range at least `grain` long. The split
// depends on the thread count: a body whose bits must not depend on it has to
// treat every index alone.
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
