#include "parallel/comm/nccl_line.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "model/base/error.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

ncclConfig_t config_for(const CallSite& site) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = site.group.c_str();
  return config;
}

}  // namespace

NcclLine::NcclLine(const ncclUniqueId& id, const CallSite& site)
    : exceptions_(std::uncaught_exceptions()) {
  ncclConfig_t config = config_for(site);
  check(ncclCommInitRankConfig(&comm_, site.size, id, site.rank, &config), site);
  wait_until_settled(site, kSecondsToMeet);
}

NcclLine::NcclLine(NcclLine& parent, int color, int key, const CallSite& site)
    : exceptions_(std::uncaught_exceptions()) {
  ncclConfig_t config = config_for(site);
  parent.check(ncclCommSplit(parent.comm_, color, key, &comm_, &config), site);
  // The child can be polled only after the parent has finished its part of the split.
  parent.wait_until_settled(site, kSecondsToMeet);
  if (!is_empty()) wait_until_settled(site, kSecondsToMeet);
}

NcclLine::~NcclLine() {
  if (is_empty()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    ncclCommAbort(comm_);
    return;
  }
  const std::string name = "a group of NCCL calls";
  try {
    const CallSite site{"end", name};
    check(ncclCommFinalize(comm_), site);
    wait_until_settled(site, kSecondsToMeet);
    ncclCommDestroy(comm_);
  } catch (const PeerError&) {  // a destructor must not throw; the communicator is aborted already
  }
}

void NcclLine::check(ncclResult_t result, const CallSite& site) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(site, ncclGetErrorString(result));
}

void NcclLine::wait_until_settled(const CallSite& site, double most_seconds) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), site);
    check(state, site);
    if (state == ncclSuccess) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (most_seconds > 0 && seconds > most_seconds) {
      fail(site, say("the ranks did not connect within ", most_seconds, " s"));
    }
    std::this_thread::yield();
  }
}

void NcclLine::fail(const CallSite& site, const std::string& why) {
  const char* details = is_empty() ? nullptr : ncclGetLastError(comm_);
  std::string text = say(place(site), " failed: NCCL: ", why);
  if (details != nullptr && *details != '\0') text += say(" (", details, ")");
  if (!is_empty()) ncclCommAbort(std::exchange(comm_, nullptr));
  throw PeerError(text);
}

}  // namespace trireme::comm
