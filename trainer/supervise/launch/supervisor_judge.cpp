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

// Who has moved within so many seconds before all ended did not hold the others up; mpirun takes
// two of them to end.
constexpr double kStoodStillS = 5;

// Nodes' clocks may differ; an incarnation takes longer to begin and to end.
constexpr std::chrono::seconds kClocksDiffer{1};

bool began_since(const FlightRecorder& recorder, std::chrono::system_clock::time_point launched) {
  const std::chrono::nanoseconds from = (launched - kClocksDiffer).time_since_epoch();
  return std::all_of(recorder.ranks.begin(), recorder.ranks.end(), [&](const RecordedRank& rank) {
    return rank.state == RecordedRank::State::kMissing || rank.started_unix > from.count();
  });
}

// The code of a launcher that was killed, or whose rank was.
std::string ended_with(int code) {
  constexpr int kBySignal = 128;
  const bool by_signal = code > kBySignal && code < kBySignal + NSIG;
  return fmt::format("the launcher ended with {}{}", code,
                     by_signal ? say(" (", signal_name(code - kBySignal), ")") : "");
}

}  // namespace

void Supervisor::judge_ledgers(const Running& running, Ended& ended) const {
  FlightRecorder recorder;
  std::optional<Verdict> verdict;
  bool has_begun = false;
  try {
    recorder = read_flight_recorder(run_dir_);
    has_begun = began_since(recorder, running.launched_at);
    if (has_begun) verdict = judge(recorder);
  } catch (const EnvironmentError&) {
    // no rank came so far that it kept one
  }
  EventsLog::Details details{{"ranks", std::vector<int>{}}, {"hosts", std::vector<std::string>{}}};
  if (verdict) {
    const RecordedRank& first = recorder.ranks[static_cast<std::size_t>(verdict->ranks.front())];
    const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    const double idle =
        static_cast<double>(now.count() - first.unix_of(first.page.progress.changed)) * 1e-9;
    ended.detect_seconds = idle;
    details["phase"] = ledger::name_of(first.page.phase());
    // Its ranks go with it, one before the other.
    const bool launcher_was_lost =
        running.launcher.was_killed() && verdict->health != RankHealth::kFailed;
    if (launcher_was_lost || (verdict->health == RankHealth::kWell && idle < kStoodStillS)) {
      ended.verdict =
          fmt::format("{}; every rank was at work until then: {}", ended_with(ended.exit_code),
                      place_of(world_report(recorder), verdict->ranks.front()));
      details["health"] = name_of(RankHealth::kLost);
    } else {
      if (!ended.verdict.empty()) ended.verdict += ": ";
      ended.verdict += verdict->text;
      std::vector<std::string> hosts;
      for (const int rank : verdict->ranks) {
        hosts.push_back(recorder.ranks[static_cast<std::size_t>(rank)].host);
      }
      details["ranks"] = verdict->ranks;
      details["hosts"] = hosts;
      details["health"] = name_of(verdict->health);
    }
  }
  if (ended.verdict.empty()) {
    ended.verdict =
        ended_with(ended.exit_code) +
        (has_begun ? ", and no rank said why"
                   : " while its ranks started (MPI_Init), before one of them could be blamed; "
                     "what it said itself is above");
    if (!has_begun) details["phase"] = ledger::name_of(ledger::Phase::kStart);
  }
  tell(ended.verdict);
  details["text"] = ended.verdict;
  if (ended.detect_seconds) details["detect_seconds"] = *ended.detect_seconds;
  details["exit_code"] = static_cast<int>(ExitCode::kPeer);
  record("failure", details);
}

}  // namespace trireme
