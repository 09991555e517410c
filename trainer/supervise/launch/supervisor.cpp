#include "trainer/supervise/launch/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <utility>

#include "checkpoint/format/names.h"
#include "checkpoint/store/store.h"
#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/supervise/launch/run_follower.h"
#include "trainer/supervise/node_agent/own_processes.h"
#include "trainer/supervise/watchdog/signals.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

constexpr const char* kMark = "TRIREME_LAUNCH";
// Lease::renew() itself skips renewals that are not due.
constexpr double kRenewCheckS = 0.1;

std::vector<std::string> words_of(const std::vector<Override>& overrides) {
  std::vector<std::string> words;
  for (const auto& [key, value] : overrides) words.push_back("--" + key + "=" + value);
  return words;
}

std::vector<std::string> names_of(const std::vector<HostSlots>& places) {
  std::vector<std::string> names;
  for (const HostSlots& place : places) {
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

std::vector<HostSlots> without(std::vector<HostSlots> places, const std::set<std::string>& hosts) {
  std::erase_if(places, [&](const HostSlots& place) { return hosts.contains(place.host); });
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
    const std::vector<HostSlots> places = usable();
    const auto fit =
        fit_world(job_.loaded, job_.ranks, slots_of(places), elastic_.min_data_parallel);
    if (!fit) {
      return give_up(
          static_cast<int>(ExitCode::kStopped),
          say("only ", slots_of(places),
              " slots are available and no layout of the run fits (elastic.min_data_parallel "
              "= ",
              elastic_.min_data_parallel, ")"));
    }
    const Outcome outcome = run_once(*fit, places);
    RestartDecision next = policy_.after({.exit_code = outcome.exit_code,
                                          .step = best_step_,
                                          .was_asked = requested_ == StopRequest::kResize,
                                          .excludes_host = outcome.excludes_host});
    if (requested_ == StopRequest::kKill) return give_up(128 + SIGINT, "killed by a second Ctrl-C");
    if (next.restarts && requested_ == StopRequest::kStop) {
      return give_up(static_cast<int>(ExitCode::kStopped),
                     say("stop requested, but the ranks exited with ", outcome.exit_code));
    }
    if (!next.restarts) {
      if (outcome.exit_code == 0 || outcome.exit_code == static_cast<int>(ExitCode::kStopped)) {
        return next.exit_code;
      }
      return give_up(next.exit_code, next.why);
    }
    requested_ = forwarded_.request = StopRequest::kNone;
    why_ = next.why;
    const double until = seconds_now() + next.wait_s;
    while (seconds_now() < until && requested_ < StopRequest::kStop) {
      take_signal(signals_.wait(std::min(until - seconds_now(), kRenewCheckS)));
      lease_.renew();
    }
    if (requested_ >= StopRequest::kStop) {
      return give_up(static_cast<int>(ExitCode::kStopped), "stop requested between two attempts");
    }
  }
}

Supervisor::Outcome Supervisor::run_once(const WorldFit& fit,
                                         const std::vector<HostSlots>& places) {
  ++attempt_;
  // Late ranks of the previous attempt, such as those on an unreachable node, must not write.
  if (attempt_ > 1) lease_.begin_next();
  using checkpoint::Lease;
  std::vector<std::string> words =
      hosts_->launcher(fit.ranks, places, {kMark, Lease::kTokenVariable});
  words.insert(words.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "train"});
  words.insert(words.end(), job_.words.begin(), job_.words.end());
  for (std::string& word : words_of(fit.overrides)) words.push_back(std::move(word));
  print(fmt::format("attempt {} ({}): {} rank{} on {}", attempt_, why_, fit.ranks,
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
  const Incarnation running{fit,      places,        launcher,
                            follower, seconds_now(), std::chrono::system_clock::now()};
  progress_ = {.ticks = world_progress(run_dir_, {}).ticks, .at = running.launched};
  Outcome outcome = follow(running);
  follower.look();
  hosts_->end_everywhere(mark);
  sweep_sessions();
  sweep_segments();
  outcome.seconds = seconds_now() - running.launched;
  record_recovery(running);
  best_step_ = std::max(best_step_, follower.step());
  failed_.reset();
  if (outcome.exit_code != 0 && outcome.exit_code != static_cast<int>(ExitCode::kStopped)) {
    failed_ = {.at = follower.failure() ? follower.failure()->at : seconds_now(),
               .step = follower.step(),
               .detect_seconds = outcome.detect_seconds};
  }
  record("ended", {{"attempt", attempt_},
                   {"exit_code", outcome.exit_code},
                   {"seconds", outcome.seconds},
                   {"verdict", outcome.verdict}});
  outcome.excludes_host = exclude_unfit(running);
  return outcome;
}

void Supervisor::take_signal(int signal) {
  if (signal == 0 || signal == SIGCHLD) return;
  const bool again = signal == SIGINT && requested_ >= StopRequest::kStop;
  requested_ = again ? StopRequest::kKill : std::max(requested_, StopRequest::kStop);
  print(again ? "killing the ranks"
              : fmt::format("{} received: the ranks commit a checkpoint and stop",
                            signal_name(signal)));
}

std::vector<HostSlots> Supervisor::usable() {
  return without(hosts_->usable(), excluded_);
}

bool Supervisor::exclude_unfit(const Incarnation& running) {
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
    print(fmt::format("{} cannot be excluded: no layout of the run fits the {} slots that remain",
                      fmt::join(found, ", "), slots));
    return false;
  }
  for (const std::string& host : found) {
    print(fmt::format("excluded {}: {}", host, unfit->why));
    record("excluded", {{"host", host}, {"why", unfit->why}});
  }
  excluded_.merge(found);
  return true;
}

void Supervisor::record_recovery(const Incarnation& running) {
  const RunFollower& follower = running.follower;
  if (!failed_ || !follower.first_step_at()) return;
  const RunFollower::Start start = follower.start().value_or(RunFollower::Start{});
  EventsLog::Details details{
      {"attempt", attempt_},
      {"lost_seconds", *follower.first_step_at() - failed_->at},
      {"end_seconds", running.launched - failed_->at},
      {"relaunch_seconds", start.at - running.launched},
      {"load_seconds", start.load_seconds},
      {"recomputed_steps", std::max<std::int64_t>(failed_->step - start.step, 0)},
      {"resumed_from", start.from.empty() ? "nothing"
                       : start.in_memory  ? "memory"
                                          : "disk"}};
  if (failed_->detect_seconds) details["detect_seconds"] = *failed_->detect_seconds;
  record("recovered", details);
}

void Supervisor::print(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme launch: %s\n", text.c_str());
  std::fflush(stderr);
}

void Supervisor::record(const std::string& event, const EventsLog::Details& details) const {
  EventsLog(run_dir_ / "events.jsonl").record(event, best_step_, details);
}

// A run that may be restarted reports the checkpoint from which it would resume.
int Supervisor::give_up(int code, const std::string& why) const {
  EventsLog::Details details{{"exit_code", code}, {"why", why}};
  std::string left;
  if (code == static_cast<int>(ExitCode::kStopped)) {
    const auto step = newest_committed(run_dir_);
    details["committed"] = step ? EventsLog::Details(*step) : EventsLog::Details();
    left = step ? say("; the newest checkpoint is step ", *step)
                : "; no checkpoint was committed yet, the next start begins at step 0";
  }
  print(fmt::format("giving up, exit code {}: {}{}", code, why, left));
  record("give_up", details);
  return code;
}

}  // namespace trireme
