#include "trainer/supervise/launch/restart_policy.h"

#include <cmath>

namespace trireme {
namespace {

constexpr double kWaitFactor = 6;

bool is_permanent(int code) {
  return code == static_cast<int>(ExitCode::kUsage) ||
         code == static_cast<int>(ExitCode::kDiverged);
}

// Caused by one host or file system: once steps were made, another host may work.
bool may_be_transient(int code) {
  return code == static_cast<int>(ExitCode::kData) ||
         code == static_cast<int>(ExitCode::kCheckpoint) ||
         code == static_cast<int>(ExitCode::kEnvironment);
}

}  // namespace

RestartDecision RestartPolicy::after(const IncarnationEnd& end) {
  const bool has_progress = end.step > newest_;
  if (has_progress) newest_ = end.step;
  const auto stop = [](int code, std::string why) {
    return RestartDecision{.exit_code = code, .why = std::move(why)};
  };
  if (end.exit_code == 0) return stop(0, "done");
  if (end.exit_code == static_cast<int>(ExitCode::kStopped)) {
    if (end.was_asked) return {.restarts = true, .why = "resized: the number of ranks changes"};
    return stop(end.exit_code, "stopped on a signal");
  }
  const bool may_recover = has_progress || end.excludes_host;
  if (is_permanent(end.exit_code) || (may_be_transient(end.exit_code) && !may_recover)) {
    return stop(end.exit_code, "a restart cannot fix this error");
  }
  without_progress_ = may_recover ? 0 : without_progress_ + 1;
  if (without_progress_ >= kMaxWithoutProgress) {
    return stop(static_cast<int>(ExitCode::kNoProgress),
                say(without_progress_, " starts in a row made no step after step ", newest_));
  }
  if (restarts_ >= max_restarts_) {
    return stop(static_cast<int>(ExitCode::kPeer),
                say("elastic.max_restarts = ", max_restarts_, " restarts exhausted"));
  }
  ++restarts_;
  const double wait =
      without_progress_ == 0 ? 0 : wait_s_ * std::pow(kWaitFactor, without_progress_ - 1);
  return {.restarts = true,
          .wait_s = wait,
          .why = end.excludes_host ? "restart without an excluded host"
                 : has_progress    ? "restart after a failure"
                                   : "restart after a failure without a new step"};
}

}  // namespace trireme
