#pragma once
#include <nccl.h>

#include <string>

#include "parallel/comm/mpi_calls.h"

namespace trireme::comm {

// A nonblocking NCCL communicator: the host polls until a call completes. On failure it is aborted,
// so that its kernels do not spin forever, and PeerError is thrown with NCCL's error text.
//
// Internal to parallel/comm, in builds with CUDA.
class NcclLine {
 public:
  // Timeout of initialization and of destruction.
  static constexpr double kSecondsToMeet = 120;

  // The communicator of all ranks with this id. Collective. Moves tensors of the process's current
  // CUDA device.
  NcclLine(const ncclUniqueId& id, const CallSite& site);
  // Splits `parent`: ranks with the same color, ordered by `key`. Collective over the parent; a
  // rank with NCCL_SPLIT_NOCOLOR gets a communicator that is_empty().
  NcclLine(NcclLine& parent, int color, int key, const CallSite& site);
  NcclLine(const NcclLine&) = delete;
  NcclLine& operator=(const NcclLine&) = delete;
  // Waits for pending work; aborts during stack unwinding.
  ~NcclLine();

  bool is_empty() const { return comm_ == nullptr; }

  // Enqueues the calls of `calls(ncclComm_t)` as one NCCL group. settle() must return before the
  // stream's work can be waited for.
  template <class Calls>
  void queue(const CallSite& site, const Calls& calls) {
    settle(site);
    check(ncclGroupStart(), site);
    calls(comm_);
    check(ncclGroupEnd(), site);
  }
  // Returns when all calls are enqueued on their stream.
  void settle(const CallSite& site) { wait_until_settled(site, 0); }
  // Accepts ncclSuccess and ncclInProgress.
  void check(ncclResult_t result, const CallSite& site);

 private:
  void wait_until_settled(const CallSite& site, double most_seconds);
  [[noreturn]] void fail(const CallSite& site, const std::string& why);

  ncclComm_t comm_ = nullptr;
  int exceptions_;
};

}  // namespace trireme::comm
