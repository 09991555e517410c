#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "model/base/error.h"
#include "trainer/launch/supervisor.h"
#include "trainer/restart/flight_recorder.h"

namespace trireme {
namespace {

// Nodes' clocks may differ; an incarnation takes longer to begin and to end.
constexpr std::chrono::seconds kClocksDiffer{1};

bool began_since(const FlightRecorder& recorder, std::chrono::system_clock::time_point launched) {
  const std::chrono::nanoseconds from = (launched - kClocksDiffer).time_since_epoch();
  return std::all_of(recorder.ranks.begin(), recorder.ranks.end(), [&](const RecordedRank& rank) {
    return rank.state == RecordedRank::State::kMissing || rank.started_unix > from.count();
  });
}

}  // namespace

void Supervisor::judge_ledgers(const Running& running, Ended& ended) const {
  FlightRecorder recorder;
  std::optional<Verdict> verdict;
  try {
    recorder = read_flight_recorder(run_dir_);
    if (began_since(recorder, running.launched_at)) verdict = judge(recorder);
  } catch (const EnvironmentError&) {
    // no rank came so far that it kept one
  }
  EventsLog::Details details{{"ranks", std::vector<int>{}}, {"hosts", std::vector<std::string>{}}};
  if (verdict) {
    if (!ended.verdict.empty()) ended.verdict += ": ";
    ended.verdict += verdict->text;
    std::vector<std::string> hosts;
    for (const int rank : verdict->ranks) {
      hosts.push_back(recorder.ranks[static_cast<std::size_t>(rank)].host);
    }
    const RecordedRank& first = recorder.ranks[static_cast<std::size_t>(verdict->ranks.front())];
    const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    const std::int64_t idle = now.count() - first.unix_of(first.page.progress.changed);
    ended.detect_seconds = static_cast<double>(idle) * 1e-9;
    details = {{"ranks", verdict->ranks},
               {"hosts", hosts},
               {"health", name_of(verdict->health)},
               {"phase", ledger::name_of(first.page.phase())}};
  }
  if (ended.verdict.empty()) {
    ended.verdict =
        fmt::format("the launcher ended with {}, and no rank said why", ended.exit_code);
  }
  tell(ended.verdict);
  details["text"] = ended.verdict;
  if (ended.detect_seconds) details["detect_seconds"] = *ended.detect_seconds;
  details["exit_code"] = static_cast<int>(ExitCode::kPeer);
  record("failure", details);
}

}  // namespace trireme
