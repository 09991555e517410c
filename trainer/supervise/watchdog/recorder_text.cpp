#include "trainer/supervise/watchdog/recorder_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "trainer/supervise/watchdog/recorder_folder.h"

namespace trireme {
namespace {

using State = RecordedRank::State;

constexpr std::size_t kMostRows = 64;
constexpr std::size_t kLastCalls = 8;
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// The format of events.jsonl, so that texts compare like times.
std::string time_text(std::int64_t unix_nanoseconds) {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
      fmt::gmtime(static_cast<std::time_t>(unix_nanoseconds / kNanosecondsPerSecond)),
      unix_nanoseconds / 1'000'000 % 1000);
}

std::string state_text(const RecordedRank& rank) {
  switch (rank.ending) {
    case flight::Ending::kDone:
      return "finished";
    case flight::Ending::kByPeer:
      return "aborted by watchdog";
    case flight::Ending::kFailed:
      return "failed";
    case flight::Ending::kNone:
      break;
  }
  switch (rank.state) {
    case State::kRuns:
      return "running";
    case State::kStopped:
      return "stopped";
    case State::kGone:
      return "killed";
    case State::kElsewhere:
      return "on another host";
    case State::kMissing:
      return "no recording";
  }
  return "?";
}

std::string number_or_dash(std::int64_t number) {
  return number < 0 ? "-" : fmt::format("{}", number);
}

std::string call_text(flight::Operation operation, std::uint64_t sequence,
                      const std::string& group) {
  return fmt::format("{} {} of {}", flight::name_of(operation), sequence, group);
}

using Row = std::vector<std::string>;

Row row_of(const RankRecordings& recorder, const WorldReport& world, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const RecordedRank& seen = recorder.ranks[index];
  const flight::Progress& at = seen.page.progress;
  if (seen.state == State::kMissing) {
    return {fmt::format("{}", rank), "-", "-", state_text(seen), "-", "-", "-", "-", "-", "-", "-"};
  }
  const RecordedGroup* group = seen.page.group();
  const std::vector<int> awaited = awaited_by(world, rank);
  const double since = group ? world[index].waits_s() : world[index].unchanged_s();
  std::string waits_for = "-";
  if (!awaited.empty()) {
    const std::size_t shown = std::min<std::size_t>(awaited.size(), 4);
    waits_for = fmt::format("{}{}", fmt::join(awaited.begin(), awaited.begin() + shown, " "),
                            shown < awaited.size() ? " ..." : "");
  }
  return {fmt::format("{}", rank),
          seen.host,
          fmt::format("{}", seen.pid),
          state_text(seen),
          number_or_dash(at.step > 0 ? at.step : -1),
          flight::name_of(seen.page.phase()),
          number_or_dash(at.micro_batch),
          number_or_dash(at.layer),
          group ? call_text(seen.page.operation(), at.sequence, group->name) : "-",
          waits_for,
          fmt::format("{:.1f} s", std::max(since, 0.0))};
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// Shows the blamed ranks and fills up to kMostRows with others.
std::string table(const RankRecordings& recorder, const std::vector<int>& blamed) {
  const WorldReport world = world_report(recorder);
  std::vector<int> shown = blamed;
  for (int rank = 0; rank < static_cast<int>(world.size()); ++rank) {
    if (std::count(blamed.begin(), blamed.end(), rank) == 0) shown.push_back(rank);
  }
  const std::size_t left_out = shown.size() - std::min(shown.size(), kMostRows);
  shown.resize(shown.size() - left_out);
  std::sort(shown.begin(), shown.end());
  std::vector<Row> rows{{"rank", "host", "pid", "state", "step", "phase", "micro-batch", "layer",
                         "call", "waits for", "idle for"}};
  for (const int rank : shown) rows.push_back(row_of(recorder, world, rank));
  std::string text = aligned(rows);
  if (left_out > 0) text += fmt::format("and {} other ranks\n", left_out);
  return text;
}

std::string last_calls(const RecordedRank& rank, int number) {
  if (rank.calls.empty()) return fmt::format("rank {} recorded no calls\n", number);
  std::vector<Row> rows{{"time", "step", "phase", "micro-batch", "layer", "call", "bytes", "took"}};
  const std::size_t first = rank.calls.size() - std::min(rank.calls.size(), kLastCalls);
  for (std::size_t i = first; i < rank.calls.size(); ++i) {
    const flight::Call& call = rank.calls[i];
    const auto operation = static_cast<flight::Operation>(call.operation);
    const std::string group =
        call.group < rank.page.groups.size() ? rank.page.groups[call.group].name : "?";
    std::string what = call_text(operation, call.sequence, group);
    if (flight::is_message(operation)) what += fmt::format(", rank {}", call.peer);
    rows.push_back(
        {time_text(rank.unix_of(call.start)), number_or_dash(call.step),
         flight::name_of(static_cast<flight::Phase>(call.phase)), number_or_dash(call.micro_batch),
         number_or_dash(call.layer), what, fmt::format("{}", call.bytes),
         call.end > 0 ? fmt::format("{:.3f} ms", static_cast<double>(call.end - call.start) * 1e-6)
                      : "not completed"});
  }
  return fmt::format("last calls of rank {}:\n{}", number, aligned(rows));
}

// The first failure event since the ranks started.
std::string recorded_failure(const RankRecordings& recorder) {
  std::int64_t started = 0;
  for (const RecordedRank& rank : recorder.ranks) started = std::max(started, rank.started_unix);
  std::filesystem::path run = recorder.folder;
  while (run.has_filename() && run.filename() != kRecorderFolder) run = run.parent_path();
  std::istringstream events;
  try {
    events.str(read_text(run.parent_path() / "events.jsonl"));
  } catch (const EnvironmentError&) {
    return {};
  }
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json_at<std::string>(event, "event") != "failure") continue;
    const auto time = json_at<std::string>(event, "time"),
               text = json_at<std::string>(event, "text");
    if (time && text && *time >= time_text(started)) return *text;
  }
  return {};
}

std::string verdict_text(const RankRecordings& recorder, const std::optional<Verdict>& verdict) {
  if (verdict) return verdict->text;
  const auto& ranks = recorder.ranks;
  if (std::all_of(ranks.begin(), ranks.end(),
                  [](const RecordedRank& rank) { return rank.ending == flight::Ending::kDone; })) {
    return "none: every rank finished";
  }
  return recorder.is_over() ? "none: no rank waited for another" : "none: the run is still running";
}

int longest_idle(const RankRecordings& recorder) {
  const WorldReport world = world_report(recorder);
  const auto idle_s = [](const RankReport& report) {
    return report.page.progress.changed == 0 ? -1 : report.unchanged_s();
  };
  const auto found = std::max_element(
      world.begin(), world.end(),
      [&](const RankReport& a, const RankReport& b) { return idle_s(a) < idle_s(b); });
  return static_cast<int>(found - world.begin());
}

}  // namespace

std::string recorder_text(const RankRecordings& recorder) {
  const std::optional<Verdict> verdict = judge(recorder);
  std::int64_t started = recorder.now;
  for (const RecordedRank& rank : recorder.ranks) {
    if (rank.started_unix > 0) started = std::min(started, rank.started_unix);
  }
  std::string text = fmt::format("{}: {} ranks, {} to {}{}\n", recorder.folder.string(),
                                 recorder.ranks.size(), time_text(started), time_text(recorder.now),
                                 recorder.is_over() ? "" : " (still running)");
  text += fmt::format("verdict: {}\n", verdict_text(recorder, verdict));
  if (const std::string failure = recorded_failure(recorder); !failure.empty()) {
    text += fmt::format("watchdog verdict: {}\n", failure);
  }
  text += fmt::format("\n{}\n", table(recorder, verdict ? verdict->ranks : std::vector<int>()));
  const int shown = verdict ? verdict->ranks.front() : longest_idle(recorder);
  return text + last_calls(recorder.ranks[static_cast<std::size_t>(shown)], shown);
}

}  // namespace trireme
