#include "parallel/comm/nccl_line.h"

#include <exception>
#include <utility>

#include "model/base/error.h"

namespace trireme::comm {

NcclLine::NcclLine(const ncclUniqueId& id, const CallSite& site)
    : exceptions_(std::uncaught_exceptions()) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = site.group.c_str();
  check(ncclCommInitRankConfig(&comm_, site.size, id, site.rank, &config), site);
}

NcclLine::~NcclLine() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    ncclCommAbort(comm_);
    return;
  }
  ncclCommFinalize(comm_);
  ncclCommDestroy(comm_);
}

void NcclLine::check_earlier(const CallSite& site) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), site);
  check(state, site);
}

void NcclLine::check(ncclResult_t result, const CallSite& site) {
  if (result == ncclSuccess) return;
  const char* details = comm_ == nullptr ? nullptr : ncclGetLastError(comm_);
  std::string text = say(place(site), " failed: NCCL: ", ncclGetErrorString(result));
  if (details != nullptr && *details != '\0') text += say(" (", details, ")");
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  throw PeerError(text);
}

}  // namespace trireme::comm
