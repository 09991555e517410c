#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "model/base/error.h"
#include "trainer/supervise/launch/run_follower.h"
#include "trainer/supervise/launch/supervisor.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// How often the run folder is polled: while an event is expected, and otherwise.
constexpr double kSoonS = 0.02, kLaterS = 0.1;
constexpr double kHostsEachS = 0.5;
// Minimum time between two signals to the ranks, and the number of steps that may complete after a
// signal was received: the step in progress, and one that the supervisor had not read yet.
constexpr double kForwardAgainS = 2;
constexpr std::int64_t kStepsWithSignal = 2;
constexpr double kProgressCheckS = 1;
// Time from a verdict until remaining ranks are killed: they exit on their own, and a rank that
// failed on its own has a specific exit code.
constexpr double kExitS = 0.1, kExitWithCodeS = 2;
// Added to the limit of the ranks' own watchdog, which acts first.
constexpr double kBeyondWatchS = 10;
// Growing needs a restart: not right after a start.
constexpr double kLeastBeforeGrowthS = 5;

// Done, stopped, or an exit code that a rank chose itself.
bool exited_in_order(int code) {
  return code == 0 || code == static_cast<int>(ExitCode::kStopped) ||
         (code >= static_cast<int>(ExitCode::kUsage) &&
          code <= static_cast<int>(ExitCode::kDiverged));
}

}  // namespace

Supervisor::Outcome Supervisor::follow(const Incarnation& running) {
  const RunFollower& follower = running.follower;
  Outcome outcome;
  for (;;) {
    take_signal(signals_.wait(follower.first_step_at() ? kLaterS : kSoonS));
    lease_.renew();
    running.follower.look();
    if (const auto code = running.launcher.ended()) {
      outcome.exit_code = *code;
      break;
    }
    forward_stop(running);
    check_hosts(running);
    outcome.verdict = stall_reason(running);
    if (outcome.verdict.empty() && requested_ != StopRequest::kKill) continue;
    outcome.exit_code = static_cast<int>(ExitCode::kPeer);
    if (follower.failure() || requested_ == StopRequest::kKill) break;
    outcome.exit_code = follower.stopped().value_or(outcome.exit_code);
    outcome.detect_seconds = seconds_now() - progress_.at;
    break;
  }
  running.follower.look();  // events of the last moments
  if (const auto& failure = follower.failure()) {
    outcome.verdict = failure->text;
    outcome.detect_seconds = failure->detect_seconds;
  } else if (requested_ != StopRequest::kKill && !exited_in_order(outcome.exit_code)) {
    follower.stopped() ? print(outcome.verdict) : judge_recordings(running, outcome);
  }
  return outcome;
}

// The signal would kill ranks that do not train yet. If they keep training after it, none of them
// received it: a launcher may lose one.
void Supervisor::forward_stop(const Incarnation& running) {
  const RunFollower& follower = running.follower;
  if (requested_ == StopRequest::kNone || !follower.start()) return;
  const double now = seconds_now();
  const bool still_train = !follower.stopped() &&
                           follower.step() > forwarded_.step + kStepsWithSignal &&
                           now - forwarded_.at > kForwardAgainS;
  if (forwarded_.request >= requested_ && !still_train) return;
  forwarded_ = {requested_, now, follower.step()};
  running.launcher.signal(SIGUSR1);
}

void Supervisor::check_hosts(const Incarnation& running) {
  const double now = seconds_now();
  if (now - hosts_seen_at_ < kHostsEachS || requested_ != StopRequest::kNone) return;
  hosts_seen_at_ = now;
  const std::vector<HostSlots> places = usable();
  if (places == running.places) return;
  const auto fit = fit_world(job_.loaded, job_.ranks, slots_of(places), elastic_.min_data_parallel);
  const bool grows = fit && fit->ranks > running.fit.ranks;
  const auto& first_step = running.follower.first_step_at();
  const bool may_grow = elastic_.grow && first_step && now - *first_step > kLeastBeforeGrowthS;
  if (!(grows && may_grow) && !lacks(places, first_slots(running.places, running.fit.ranks)))
    return;
  print(fmt::format(
      "{} slots are available now: the run commits a checkpoint and restarts on {} ranks",
      slots_of(places), fit ? fit->ranks : 0));
  requested_ = StopRequest::kResize;
}

std::string Supervisor::stall_reason(const Incarnation& running) {
  const RunFollower& follower = running.follower;
  const double now = seconds_now();
  if (const auto& failure = follower.failure()) {
    const double patience = failure->has_own_code ? kExitWithCodeS : kExitS;
    return now - failure->at > patience ? "the launcher did not exit" : "";
  }
  if (follower.stopped()) {
    return now - follower.stopped_at() > elastic_.heartbeat_timeout_s ? "a rank hung during exit"
                                                                      : "";
  }
  const double each = std::min(kProgressCheckS, elastic_.heartbeat_timeout_s / 2);
  if (now - progress_.at < each) return "";
  const StallLimits limits{elastic_.stall_timeout_s, elastic_.load_save_timeout_s};
  const WorldProgress all = world_progress(run_dir_, limits);
  if (std::exchange(progress_.ticks, all.ticks) != all.ticks) {
    progress_.at = now;
    progress_.has_recordings = true;
  }
  if (progress_.has_recordings && now - progress_.at > elastic_.heartbeat_timeout_s &&
      hosts_->all_ranks_are_stopped(run_dir_)) {
    return "every rank is stopped";
  }
  if (elastic_.stall_timeout_s <= 0) return "";
  // Ranks without a recording are still starting and do not wait for storage yet.
  const double limit = (progress_.has_recordings ? all.limit_s : limits.usual_s) +
                       2 * elastic_.heartbeat_timeout_s + kBeyondWatchS;
  return now - progress_.at > limit ? fmt::format("no rank has made progress for {:.0f} s", limit)
                                    : "";
}

}  // namespace trireme
