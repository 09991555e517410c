#pragma once
#include <chrono>

namespace trireme::comm {

// Scope of a blocking MPI call. Open MPI polls in such calls, and yields between polls if it finds,
// or if mpi_yield_when_idle says, that ranks outnumber cores; a yielding thread still takes its
// share of a core from ranks that compute. Within this scope sched_yield(2), which this program
// defines in place of libc's, sleeps instead once the call has waited for 400 us: an eighth of the
// time waited, at least 50 us, at most 1 ms. Other threads, NCCL's among them, yield as before.
class PollingWait {
 public:
  PollingWait();
  PollingWait(const PollingWait&) = delete;
  PollingWait& operator=(const PollingWait&) = delete;
  ~PollingWait();

  // What sched_yield does in this scope.
  void yield() const;

 private:
  const std::chrono::steady_clock::time_point begin_;
};

}  // namespace trireme::comm
