#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "model/base/error.h"
#include "trainer/supervise/launch/supervisor.h"
#include "trainer/supervise/watchdog/flight_recorder.h"
#include "trainer/supervise/watchdog/signals.h"

namespace trireme {
namespace {

// A rank that made progress this recently did not stall the others; mpirun takes two seconds to
// exit.
constexpr double kStallS = 5;

// Allowed difference of the nodes' clocks; starting and stopping an incarnation takes longer.
constexpr std::chrono::seconds kClockSkew{1};

bool started_since(const RankRecordings& recorder, std::chrono::system_clock::time_point launched) {
  const std::chrono::nanoseconds from = (launched - kClockSkew).time_since_epoch();
  return std::all_of(recorder.ranks.begin(), recorder.ranks.end(), [&](const RecordedRank& rank) {
    return rank.state == RecordedRank::State::kMissing || rank.started_unix > from.count();
  });
}

// Describes the exit code of a launcher that was killed, or whose rank was.
std::string exit_text(int code) {
  constexpr int kBySignal = 128;
  const bool by_signal = code > kBySignal && code < kBySignal + NSIG;
  return fmt::format("the launcher exited with {}{}", code,
                     by_signal ? say(" (", signal_name(code - kBySignal), ")") : "");
}

}  // namespace

void Supervisor::judge_recordings(const Incarnation& running, Outcome& outcome) const {
  RankRecordings recorder;
  std::optional<Verdict> verdict;
  bool has_begun = false;
  try {
    recorder = read_flight_recorder(run_dir_);
    has_begun = started_since(recorder, running.launched_at);
    if (has_begun) verdict = judge(recorder);
  } catch (const EnvironmentError&) {
    // no rank has created a recording
  }
  EventsLog::Details details{{"ranks", std::vector<int>{}}, {"hosts", std::vector<std::string>{}}};
  if (verdict) {
    const RecordedRank& first = recorder.ranks[static_cast<std::size_t>(verdict->ranks.front())];
    const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    const double idle =
        static_cast<double>(now.count() - first.unix_of(first.page.progress.changed)) * 1e-9;
    outcome.detect_seconds = idle;
    details["phase"] = flight::name_of(first.page.phase());
    // Its ranks die with it, one before another.
    const bool launcher_was_lost =
        running.launcher.was_killed() && verdict->health != RankHealth::kFailed;
    if (launcher_was_lost || (verdict->health == RankHealth::kWell && idle < kStallS)) {
      outcome.verdict = fmt::format("{}; every rank was making progress until then: {}",
                                    exit_text(outcome.exit_code),
                                    place_of(world_report(recorder), verdict->ranks.front()));
      details["health"] = name_of(RankHealth::kLost);
    } else {
      if (!outcome.verdict.empty()) outcome.verdict += ": ";
      outcome.verdict += verdict->text;
      std::vector<std::string> hosts;
      for (const int rank : verdict->ranks) {
        hosts.push_back(recorder.ranks[static_cast<std::size_t>(rank)].host);
      }
      details["ranks"] = verdict->ranks;
      details["hosts"] = hosts;
      details["health"] = name_of(verdict->health);
    }
  }
  if (outcome.verdict.empty()) {
    outcome.verdict =
        exit_text(outcome.exit_code) + (has_begun ? ", and no rank reported an error"
                                                  : " while its ranks were starting (MPI_Init), "
                                                    "before the failing rank could be identified; "
                                                    "see the launcher's output above");
    if (!has_begun) details["phase"] = flight::name_of(flight::Phase::kStart);
  }
  print(outcome.verdict);
  details["text"] = outcome.verdict;
  if (outcome.detect_seconds) details["detect_seconds"] = *outcome.detect_seconds;
  details["exit_code"] = static_cast<int>(ExitCode::kPeer);
  record("failure", details);
}

}  // namespace trireme
