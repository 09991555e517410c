#include "trainer/supervise/launch/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <utility>

#include "checkpoint/names.h"
#include "checkpoint/store.h"
#include "model/base/error.h"
#include "trainer/supervise/launch/movement.h"
#include "trainer/supervise/node_agent/own_processes.h"
#include "trainer/supervise/watchdog/signals.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

constexpr const char* kMark = "TRIREME_LAUNCH";
// While it waits; the lease knows when it is time.
constexpr double kRenewEachS = 0.1;

std::vector<std::string> words_of(const std::vector<Override>& overrides) {
  std::vector<std::string> words;
  for (const auto& [key, value] : overrides) words.push_back("--" + key + "=" + value);
  return words;
}

std::vector<std::string> names_of(const std::vector<HostPlace>& places) {
  std::vector<std::string> names;
  for (const HostPlace& place : places) {
    if (place.slots > 0) names.push_back(place.host);
  }
  return names;
}

std::optional<std::int64_t> newest_committed(const std::filesystem::path& run_dir) {
  for (const checkpoint::Summary& summary : checkpoint::Store(run_dir).list()) {
    if (summary.manifest) return summary.step;
  }
  return std::nullopt;
}

std::vector<HostPlace> without(std::vector<HostPlace> places, const std::set<std::string>& hosts) {
  std::erase_if(places, [&](const HostPlace& place) { return hosts.contains(place.host); });
  return places;
}

}  // namespace

Supervisor::Supervisor(Job job, std::unique_ptr<Hosts> hosts)
    : job_(std::move(job)),
      elastic_(job_.loaded.config.elastic),
      run_dir_(job_.loaded.config.job.dump_folder),
      hosts_(std::move(hosts)),
      lease_(run_dir_, elastic_.heartbeat_timeout_s, checkpoint::Lease::Job::of_environment(),
             checkpoint::Lease::Renewal::kByHolder),
      mark_(say(kMark, "=", checkpoint::new_uuid())),
      policy_(elastic_.max_restarts, elastic_.restart_wait_s, newest_step(run_dir_)),
      best_step_(newest_step(run_dir_)) {}

int Supervisor::run() {
  for (;;) {
    const std::vector<HostPlace> places = usable();
    const auto fit =
        fit_world(job_.loaded, job_.ranks, slots_of(places), elastic_.min_data_parallel);
    if (!fit) {
      return give_up(static_cast<int>(ExitCode::kStopped),
                     say("there is room for ", slots_of(places),
                         " ranks, which no layout of the run fits into (elastic.min_data_parallel "
                         "= ",
                         elastic_.min_data_parallel, ")"));
    }
    const Ended ended = run_once(*fit, places);
    RestartDecision next = policy_.after({.exit_code = ended.exit_code,
                                          .step = best_step_,
                                          .was_asked = asked_ == Asked::kResize,
                                          .leaves_out = ended.leaves_out});
    if (asked_ == Asked::kEndAtOnce) return give_up(128 + SIGINT, "ended at once, as was asked");
    if (next.restarts && asked_ == Asked::kStop) {
      return give_up(static_cast<int>(ExitCode::kStopped),
                     say("asked to stop, and the ranks ended with ", ended.exit_code));
    }
    if (!next.restarts) {
      if (ended.exit_code == 0 || ended.exit_code == static_cast<int>(ExitCode::kStopped)) {
        return next.exit_code;
      }
      return give_up(next.exit_code, next.why);
    }
    asked_ = passed_on_ = Asked::kNothing;
    why_ = next.why;
    const double until = seconds_now() + next.wait_s;
    while (seconds_now() < until && asked_ < Asked::kStop) {
      take_signal(signals_.wait(std::min(until - seconds_now(), kRenewEachS)));
      lease_.renew();
    }
    if (asked_ >= Asked::kStop) {
      return give_up(static_cast<int>(ExitCode::kStopped), "asked to stop between two starts");
    }
  }
}

Supervisor::Ended Supervisor::run_once(const WorldFit& fit, const std::vector<HostPlace>& places) {
  ++attempt_;
  // Late ranks of the attempt before, as those on a node that cannot be reached any more, must not
  // write.
  if (attempt_ > 1) lease_.begin_next();
  using checkpoint::Lease;
  std::vector<std::string> words =
      hosts_->launcher(fit.ranks, places, {kMark, Lease::kTokenVariable});
  words.insert(words.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "train"});
  words.insert(words.end(), job_.words.begin(), job_.words.end());
  for (std::string& word : words_of(fit.overrides)) words.push_back(std::move(word));
  tell(fmt::format("attempt {} ({}): {} rank{} on {}", attempt_, why_, fit.ranks,
                   fit.ranks == 1 ? "" : "s", fmt::join(names_of(places), ", ")));
  record("launch", {{"attempt", attempt_},
                    {"why", why_},
                    {"ranks", fit.ranks},
                    {"hosts", names_of(places)},
                    {"command", words}});
  RunFollower follower(run_dir_);
  const std::string mark = say(mark_, ".", attempt_);
  StartedProcess launcher(
      words,
      {.variables = {mark, say(Lease::kTokenVariable, "=", lease_.token())}, .ends_with_us = true});
  const Running running{fit,      places,        launcher,
                        follower, seconds_now(), std::chrono::system_clock::now()};
  ticked_at_ = running.launched;
  ticks_ = movement_of_all(run_dir_, {}).ticks;
  has_ledgers_ = false;
  Ended ended = follow(running);
  follower.look();
  hosts_->end_everywhere(mark);
  sweep_session(launcher.id());
  sweep_segments();
  ended.seconds = seconds_now() - running.launched;
  tell_recovered(running);
  best_step_ = std::max(best_step_, follower.step());
  failed_.reset();
  if (ended.exit_code != 0 && ended.exit_code != static_cast<int>(ExitCode::kStopped)) {
    failed_ = {.at = follower.failure() ? follower.failure()->at : seconds_now(),
               .step = follower.step(),
               .detect_seconds = ended.detect_seconds};
  }
  record("ended", {{"attempt", attempt_},
                   {"exit_code", ended.exit_code},
                   {"seconds", ended.seconds},
                   {"verdict", ended.verdict}});
  ended.leaves_out = leave_out_unfit(running);
  return ended;
}

void Supervisor::take_signal(int signal) {
  if (signal == 0 || signal == SIGCHLD) return;
  const bool again = signal == SIGINT && asked_ >= Asked::kStop;
  asked_ = again ? Asked::kEndAtOnce : std::max(asked_, Asked::kStop);
  tell(again ? "ending at once"
             : fmt::format("{}: the ranks are asked to commit a checkpoint and to stop",
                           signal_name(signal)));
}

std::vector<HostPlace> Supervisor::usable() {
  return without(hosts_->usable(), left_out_);
}

bool Supervisor::leave_out_unfit(const Running& running) {
  const auto& unfit = running.follower.unfit();
  if (!unfit) return false;
  std::set<std::string> found;
  for (std::size_t i = 0; i < std::min(unfit->ranks.size(), unfit->hosts.size()); ++i) {
    found.insert(hosts_->host_of(unfit->ranks[i], unfit->hosts[i], running.places));
  }
  found.erase("");
  if (found.empty()) return false;
  const int slots = slots_of(without(usable(), found));
  if (!fit_world(job_.loaded, job_.ranks, slots, elastic_.min_data_parallel)) {
    tell(
        fmt::format("{} cannot be left out: no layout of the run fits into the {} ranks there "
                    "would be room for",
                    fmt::join(found, ", "), slots));
    return false;
  }
  for (const std::string& host : found) {
    tell(fmt::format("{} is left out: {}", host, unfit->why));
    record("excluded", {{"host", host}, {"why", unfit->why}});
  }
  left_out_.merge(found);
  return true;
}

void Supervisor::tell_recovered(const Running& running) {
  const RunFollower& follower = running.follower;
  if (!failed_ || !follower.first_step_at()) return;
  const RunFollower::Begun begun = follower.begun().value_or(RunFollower::Begun{});
  EventsLog::Details told{
      {"attempt", attempt_},
      {"lost_seconds", *follower.first_step_at() - failed_->at},
      {"end_seconds", running.launched - failed_->at},
      {"relaunch_seconds", begun.at - running.launched},
      {"load_seconds", begun.load_seconds},
      {"recomputed_steps", std::max<std::int64_t>(failed_->step - begun.step, 0)},
      {"resumed_from", begun.from.empty() ? "nothing"
                       : begun.in_memory  ? "memory"
                                          : "disk"}};
  if (failed_->detect_seconds) told["detect_seconds"] = *failed_->detect_seconds;
  record("recovered", told);
}

void Supervisor::tell(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme launch: %s\n", text.c_str());
  std::fflush(stderr);
}

void Supervisor::record(const std::string& event, const EventsLog::Details& details) const {
  EventsLog(run_dir_ / "events.jsonl").record(event, best_step_, details);
}

// One that is to be started again is told from where that goes on.
int Supervisor::give_up(int code, const std::string& why) const {
  EventsLog::Details details{{"exit_code", code}, {"why", why}};
  std::string left;
  if (code == static_cast<int>(ExitCode::kStopped)) {
    const auto step = newest_committed(run_dir_);
    details["committed"] = step ? EventsLog::Details(*step) : EventsLog::Details();
    left = step ? say("; the newest checkpoint is that of step ", *step)
                : "; there is no checkpoint yet, the next start begins the run anew";
  }
  tell(fmt::format("gives up with exit code {}: {}{}", code, why, left));
  record("give_up", details);
  return code;
}

}  // namespace trireme
