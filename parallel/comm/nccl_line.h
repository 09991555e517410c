#pragma once
#include <nccl.h>

#include <string>

#include "parallel/comm/mpi_calls.h"

namespace trireme::comm {

// One communicator of NCCL's, made and called without blocking: the host looks again and again
// whether a call has come through. Where something fails it is aborted, so that no kernel of
// its own waits for ever, and PeerError is thrown with NCCL's words.
//
// Seen only by sources of this room, in builds with CUDA.
class NcclLine {
 public:
  // How long the ranks may take to come together, and to part.
  static constexpr double kSecondsToMeet = 120;

  // The line of all ranks that were given this id. Collective. The process's current CUDA
  // device is the one it moves tensors of.
  NcclLine(const ncclUniqueId& id, const CallSite& site);
  // Those of the ranks of `parent` that give the same colour, ordered by `key`. Collective
  // over the parent; a rank without colour (NCCL_SPLIT_NOCOLOR) gets a line that is_empty().
  NcclLine(NcclLine& parent, int color, int key, const CallSite& site);
  NcclLine(const NcclLine&) = delete;
  NcclLine& operator=(const NcclLine&) = delete;
  // Waits for what is under way; where an exception is on its way it aborts.
  ~NcclLine();

  bool is_empty() const { return comm_ == nullptr; }

  // Queues what `calls(ncclComm_t)` asks for as one group of NCCL's. settle() before the
  // stream's work is counted on.
  template <class Calls>
  void queue(const CallSite& site, const Calls& calls) {
    settle(site);
    check(ncclGroupStart(), site);
    calls(comm_);
    check(ncclGroupEnd(), site);
  }
  // Returns when everything queued is on its stream.
  void settle(const CallSite& site) { wait_until_settled(site, 0); }
  // ncclSuccess and ncclInProgress pass.
  void check(ncclResult_t result, const CallSite& site);

 private:
  void wait_until_settled(const CallSite& site, double most_seconds);
  [[noreturn]] void fail(const CallSite& site, const std::string& why);

  ncclComm_t comm_ = nullptr;
  int exceptions_;
};

}  // namespace trireme::comm
