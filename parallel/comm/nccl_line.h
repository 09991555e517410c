#pragma once
#include <nccl.h>

#include <string>

#include "parallel/comm/mpi_calls.h"

namespace trireme::comm {

// A blocking NCCL communicator: calls enqueue in the order of the host's program, which a
// nonblocking communicator's threads do not keep. A call that connects two ranks for the first time
// waits for both. On failure the communicator is aborted, so that its kernels do not spin forever,
// and PeerError is thrown with NCCL's error text; a peer that never comes is left to the watchdog,
// which ends the process.
//
// Internal to parallel/comm, in builds with CUDA.
class NcclLine {
 public:
  // The communicator of all ranks with this id, for tensors of the process's current CUDA device.
  // Collective.
  NcclLine(const ncclUniqueId& id, const CallSite& site);
  NcclLine(const NcclLine&) = delete;
  NcclLine& operator=(const NcclLine&) = delete;
  // Waits for pending work; aborts during stack unwinding.
  ~NcclLine();

  // Enqueues the calls of `calls(ncclComm_t)` as one NCCL group. Throws too if work enqueued
  // earlier has failed since.
  template <class Calls>
  void queue(const CallSite& site, const Calls& calls) {
    check(ncclGroupStart(), site);
    calls(comm_);
    check(ncclGroupEnd(), site);
    check_earlier(site);
  }
  void check(ncclResult_t result, const CallSite& site);

 private:
  void check_earlier(const CallSite& site);

  ncclComm_t comm_ = nullptr;
  int exceptions_;
};

}  // namespace trireme::comm
