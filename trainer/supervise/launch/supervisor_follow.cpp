#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "model/base/error.h"
#include "trainer/supervise/launch/movement.h"
#include "trainer/supervise/launch/supervisor.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// How often the run folder is looked at: while something is expected, and otherwise.
constexpr double kSoonS = 0.02, kLaterS = 0.1;
constexpr double kHostsEachS = 0.5;
// The least from one signal to the ranks to the next, and how many steps may end meanwhile although
// they have it: the one under way, and one of which the supervisor had not read yet.
constexpr double kPassOnAgainS = 2;
constexpr std::int64_t kStepsWithSignal = 2;
constexpr double kTicksEachS = 1;
// From a verdict on, until what is left of the ranks is killed: they end themselves, and one that
// failed by itself has an exit code to give.
constexpr double kEndsItselfS = 0.1, kGivesCodeS = 2;
// Beyond what the ranks' own watch allows before it gives one up.
constexpr double kBeyondWatchS = 10;
// Growing means to stop and start: not right after a start.
constexpr double kLeastBeforeGrowthS = 5;

// Done, stopped, or by what a rank has said itself.
bool ended_in_order(int code) {
  return code == 0 || code == static_cast<int>(ExitCode::kStopped) ||
         (code >= static_cast<int>(ExitCode::kUsage) &&
          code <= static_cast<int>(ExitCode::kDiverged));
}

}  // namespace

Supervisor::Ended Supervisor::follow(const Running& running) {
  const RunFollower& follower = running.follower;
  Ended ended;
  for (;;) {
    take_signal(signals_.wait(follower.first_step_at() ? kLaterS : kSoonS));
    lease_.renew();
    running.follower.look();
    if (const auto code = running.launcher.ended()) {
      ended.exit_code = *code;
      break;
    }
    pass_on(running);
    look_at_hosts(running);
    ended.verdict = lost_hope(running);
    if (ended.verdict.empty() && asked_ != Asked::kEndAtOnce) continue;
    ended.exit_code = static_cast<int>(ExitCode::kPeer);
    if (follower.failure() || asked_ == Asked::kEndAtOnce) break;
    ended.exit_code = follower.stopped().value_or(ended.exit_code);
    ended.detect_seconds = seconds_now() - ticked_at_;
    break;
  }
  running.follower.look();  // what was told at the end
  if (const auto& failure = follower.failure()) {
    ended.verdict = failure->text;
    ended.detect_seconds = failure->detect_seconds;
  } else if (asked_ != Asked::kEndAtOnce && !ended_in_order(ended.exit_code)) {
    follower.stopped() ? tell(ended.verdict) : judge_ledgers(running, ended);
  }
  return ended;
}

// Ranks that do not train yet would die of the signal. Where they train on after it, none of them
// had it: a launcher may lose one.
void Supervisor::pass_on(const Running& running) {
  const RunFollower& follower = running.follower;
  if (asked_ == Asked::kNothing || !follower.begun()) return;
  const double now = seconds_now();
  const bool train_on = !follower.stopped() &&
                        follower.step() > passed_on_step_ + kStepsWithSignal &&
                        now - passed_on_at_ > kPassOnAgainS;
  if (passed_on_ >= asked_ && !train_on) return;
  passed_on_ = asked_;
  passed_on_at_ = now;
  passed_on_step_ = follower.step();
  running.launcher.signal(SIGUSR1);
}

void Supervisor::look_at_hosts(const Running& running) {
  const double now = seconds_now();
  if (now - hosts_seen_at_ < kHostsEachS || asked_ != Asked::kNothing) return;
  hosts_seen_at_ = now;
  const std::vector<HostPlace> places = usable();
  if (places == running.places) return;
  const auto fit = fit_world(job_.loaded, job_.ranks, slots_of(places), elastic_.min_data_parallel);
  const bool grows = fit && fit->ranks > running.fit.ranks;
  const auto& first_step = running.follower.first_step_at();
  const bool may_grow = elastic_.grow && first_step && now - *first_step > kLeastBeforeGrowthS;
  if (!(grows && may_grow) && !lack(places, first_slots(running.places, running.fit.ranks))) return;
  tell(fmt::format(
      "there is room for {} ranks now: the run commits a checkpoint and goes on with {}",
      slots_of(places), fit ? fit->ranks : 0));
  asked_ = Asked::kResize;
}

std::string Supervisor::lost_hope(const Running& running) {
  const RunFollower& follower = running.follower;
  const double now = seconds_now();
  if (const auto& failure = follower.failure()) {
    const double patience = failure->has_own_code ? kGivesCodeS : kEndsItselfS;
    return now - failure->at > patience ? "the launcher does not end" : "";
  }
  if (follower.stopped()) {
    return now - follower.stopped_at() > elastic_.heartbeat_timeout_s ? "a rank hangs in its exit"
                                                                      : "";
  }
  const double each = std::min(kTicksEachS, elastic_.heartbeat_timeout_s / 2);
  if (now - ticked_at_ < each) return "";
  const StallLimits limits{elastic_.stall_timeout_s, elastic_.load_save_timeout_s};
  const Movement all = movement_of_all(run_dir_, limits);
  if (std::exchange(ticks_, all.ticks) != all.ticks) {
    ticked_at_ = now;
    has_ledgers_ = true;
  }
  if (has_ledgers_ && now - ticked_at_ > elastic_.heartbeat_timeout_s &&
      hosts_->all_ranks_are_stopped(run_dir_)) {
    return "every rank is stopped";
  }
  if (elastic_.stall_timeout_s <= 0) return "";
  // Ranks without a ledger are still being started: nothing of theirs waits for storage.
  const double limit = (has_ledgers_ ? all.limit_s : limits.usual_s) +
                       2 * elastic_.heartbeat_timeout_s + kBeyondWatchS;
  return now - ticked_at_ > limit ? fmt::format("no rank has moved for {:.0f} s", limit) : "";
}

}  // namespace trireme
