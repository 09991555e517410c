#include "trainer/supervise/launch/restart_policy.h"

#include <cmath>

namespace trireme {
namespace {

constexpr double kWaitGrows = 6;

bool never_mends(int code) {
  return code == static_cast<int>(ExitCode::kUsage) ||
         code == static_cast<int>(ExitCode::kDiverged);
}

// Of a part of the machine or of the files; where steps were made, others may serve.
bool may_pass(int code) {
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
    if (end.was_asked) return {.restarts = true, .why = "stopped to go on with other ranks"};
    return stop(end.exit_code, "stopped on a signal");
  }
  const bool has_hope = has_progress || end.leaves_out;
  if (never_mends(end.exit_code) || (may_pass(end.exit_code) && !has_hope)) {
    return stop(end.exit_code, "a restart would not help");
  }
  without_progress_ = has_hope ? 0 : without_progress_ + 1;
  if (without_progress_ >= kMostWithoutProgress) {
    return stop(
        static_cast<int>(ExitCode::kNoProgress),
        say(without_progress_, " incarnations in a row got no further than step ", newest_));
  }
  if (restarts_ >= max_restarts_) {
    return stop(static_cast<int>(ExitCode::kPeer),
                say("elastic.max_restarts = ", max_restarts_, " restarts are used up"));
  }
  ++restarts_;
  const double wait =
      without_progress_ == 0 ? 0 : wait_s_ * std::pow(kWaitGrows, without_progress_ - 1);
  return {.restarts = true,
          .wait_s = wait,
          .why = end.leaves_out ? "without an unfit host"
                 : has_progress ? "after a failure"
                                : "after a failure without a new step"};
}

}  // namespace trireme
