#include "trainer/supervise/watchdog/flight_recorder.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "model/base/error.h"
#include "model/base/host_name.h"
#include "parallel/comm/flight_recorder.h"
#include "trainer/supervise/watchdog/process_state.h"
#include "trainer/supervise/watchdog/recorder_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using flight::Ending;
using State = RecordedRank::State;

constexpr int kMostRecordedRanks = 1 << 20;
// A running run updates some page more often than this.
constexpr double kStillSeconds = 5;

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

State state_of(const RecordedRank& rank, const std::string& here) {
  if (rank.host != here) return State::kElsewhere;
  switch (state_of_process(rank.pid, rank.started)) {
    case ProcessState::kRuns:
      return State::kRuns;
    case ProcessState::kStopped:
      return State::kStopped;
    case ProcessState::kGone:
      break;
  }
  return State::kGone;
}

// Small enough that sums of two cannot overflow.
bool is_time(std::int64_t nanoseconds) {
  return nanoseconds >= 0 && nanoseconds < std::int64_t{1} << 61;
}

// Rejects recordings with values that the rest of the code cannot handle.
void require_sound(const fs::path& path, const flight::Header& header,
                   const FlightRecorderPage& page, std::int64_t ended) {
  const auto damaged = [&](const std::string& what) {
    return EnvironmentError(say(path.string(), ": damaged recording: ", what));
  };
  if (header.ranks < 1 || header.ranks > kMostRecordedRanks)
    throw damaged(say(header.ranks, " ranks"));
  if (path.filename() != flight_recorder_file_name(header.rank) || header.rank >= header.ranks) {
    throw damaged(say("its header says rank ", header.rank, " of ", header.ranks));
  }
  const flight::Progress& at = page.progress;
  for (const std::int64_t time : {header.started, header.started_unix, at.changed, ended}) {
    if (!is_time(time)) throw damaged("invalid time");
  }
  if (at.step < 0 || !is_time(at.waits_since)) throw damaged("invalid step or time");
  const bool in_message = page.group() != nullptr && flight::is_message(page.operation());
  if (in_message && (at.peer < 0 || at.peer >= header.ranks)) {
    throw damaged(say("invalid peer rank ", at.peer));
  }
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string text_of(const std::array<char, 64>& chars) {
  return printable({chars.begin(), std::find(chars.begin(), chars.end(), '\0')});
}

RecordedRank read_rank(const fs::path& path, const std::string& here, int& ranks) {
  const FlightRecorderReader reader(path);
  const flight::Header header = reader.header();
  RecordedRank rank;
  rank.page = reader.page();
  require_sound(path, header, rank.page, reader.ended());
  if (ranks != 0 && header.ranks != ranks) {
    throw EnvironmentError(say(path.string(), ": belongs to a run of ", header.ranks,
                               " ranks, but the other recordings to one of ", ranks));
  }
  ranks = header.ranks;
  for (RecordedGroup& group : rank.page.groups) group.name = printable(group.name);
  rank.host = text_of(header.host);
  rank.pid = header.pid;
  rank.started = header.started;
  rank.started_unix = header.started_unix;
  rank.ending = reader.ending();
  rank.ended = reader.ended();
  rank.losses = losses_in(path);
  std::erase_if(rank.losses, [&](const FlightRecorderLoss& loss) {
    return !is_time(loss.at) || loss.rank < 0 || loss.rank >= header.ranks;
  });
  rank.calls = reader.calls();
  std::erase_if(rank.calls, [](const flight::Call& call) {
    return !is_time(call.start) || !is_time(call.end);
  });
  rank.state = state_of(rank, here);
  return rank;
}

fs::path folder_with_recordings(const fs::path& given) {
  if (!recordings_in(given).empty()) return given;
  const fs::path inside = given / kRecorderFolder;
  if (fs::is_directory(inside) && !recordings_in(inside).empty()) return inside;
  throw EnvironmentError(say(
      given.string(), ": no flight recorder: rank-00000 exists neither in it nor in its folder ",
      kRecorderFolder));
}

bool any(const RankRecordings& recorder, bool (*holds)(const RecordedRank&)) {
  return std::any_of(recorder.ranks.begin(), recorder.ranks.end(), holds);
}

bool is_killed_here(const RecordedRank& rank) {
  return rank.state == State::kGone && rank.ending == Ending::kNone;
}

// Whether ranks ended because of another rank whose failure no recording shows.
bool cause_is_unseen(const RankRecordings& recorder) {
  return any(recorder, [](const RecordedRank& r) { return r.ending == Ending::kByPeer; }) &&
         !any(recorder, is_killed_here) &&
         !any(recorder, [](const RecordedRank& r) { return r.ending == Ending::kFailed; });
}

RankHealth health_of(const RecordedRank& rank, bool cause_is_unseen) {
  switch (rank.ending) {
    case Ending::kDone:
      return RankHealth::kLeft;
    case Ending::kFailed:
      return RankHealth::kFailed;
    case Ending::kByPeer:
      return RankHealth::kWell;  // ended by its watchdog, not at fault
    case Ending::kNone:
      break;
  }
  if (rank.state == State::kGone) return RankHealth::kLost;
  if (rank.state == State::kStopped) return RankHealth::kSilent;
  const bool runs = rank.state == State::kRuns;
  return cause_is_unseen && !runs ? RankHealth::kLost : RankHealth::kWell;
}

}  // namespace

// The state of processes on other hosts is unknown: only their recorded ending counts.
bool RankRecordings::is_over() const {
  const bool works = any(*this, [](const RecordedRank& rank) {
    return rank.state == State::kRuns || rank.state == State::kStopped;
  });
  return !works && any(*this, [](const RecordedRank& rank) {
    return rank.state == State::kGone || rank.ending != Ending::kNone;
  });
}

RankRecordings read_flight_recorder(const fs::path& folder) {
  RankRecordings recorder{.folder = folder_with_recordings((folder / "").parent_path()),
                          .ranks = {},
                          .now = unix_now()};
  const std::string here = own_host_name();
  int ranks = 0;
  for (const fs::path& path : recordings_in(recorder.folder)) {
    const auto number = static_cast<std::size_t>(std::stoi(path.filename().string().substr(5)));
    RecordedRank rank = read_rank(path, here, ranks);
    recorder.ranks.resize(static_cast<std::size_t>(ranks));
    recorder.ranks[number] = std::move(rank);
  }
  if (!recorder.is_over()) return recorder;
  recorder.now = 0;
  for (const RecordedRank& rank : recorder.ranks) {
    if (rank.state == State::kMissing) continue;
    const std::int64_t last = std::max(rank.page.progress.changed, rank.ended);
    recorder.now = std::max(recorder.now, rank.unix_of(last));
  }
  return recorder;
}

WorldReport world_report(const RankRecordings& recorder) {
  const bool unseen = cause_is_unseen(recorder);
  WorldReport world;
  for (const RecordedRank& rank : recorder.ranks) {
    RankReport report{.host = rank.state == State::kMissing ? "no recording" : rank.host,
                      .health = health_of(rank, unseen),
                      .words = {},
                      .silent_s = 0,
                      .page = rank.page,
                      .now = recorder.now - rank.started_unix + rank.started};
    report.silent_s = report.unchanged_s();
    for (const FlightRecorderLoss& loss : rank.losses) {
      report.outlived.push_back(static_cast<int>(loss.rank));
    }
    world.push_back(std::move(report));
  }
  for (const RecordedRank& rank : recorder.ranks) {
    for (const FlightRecorderLoss& loss : rank.losses) {
      const auto lost = static_cast<std::size_t>(loss.rank);
      const std::int64_t seen = rank.unix_of(loss.at);
      RankReport& report = world[lost];
      report.bad_since = report.bad_since == 0 ? seen : std::min(report.bad_since, seen);
      const bool ended_unawares = recorder.ranks[lost].state == State::kElsewhere &&
                                  recorder.ranks[lost].ending == Ending::kNone;
      if (ended_unawares) report.health = RankHealth::kLost;
    }
  }
  return world;
}

std::optional<Verdict> judge(const RankRecordings& recorder) {
  WorldReport world = world_report(recorder);
  const auto is_lost = [](const RankReport& r) { return r.health == RankHealth::kLost; };
  const auto has_left = [](const RankReport& r) { return r.health == RankHealth::kLeft; };
  const auto lost = std::count_if(world.begin(), world.end(), is_lost);
  const auto left = std::count_if(world.begin(), world.end(), has_left);
  const bool all_killed = lost > 1 && lost + left == static_cast<std::ptrdiff_t>(world.size());
  const bool some_saw_it = std::any_of(world.begin(), world.end(), [&](const RankReport& r) {
    return is_lost(r) && r.bad_since > 0;
  });
  if (!all_killed || some_saw_it) {
    if (auto verdict = judge_health(world)) return verdict;
    return judge_stall(world, {.usual_s = recorder.is_over() ? 0 : kStillSeconds});
  }
  WorldReport before = world;
  for (RankReport& report : before) {
    if (is_lost(report)) report.health = RankHealth::kWell;
  }
  auto verdict = judge_stall(before, {});
  if (!verdict) return judge_health(world);
  verdict->text = say("every rank was killed; before that ", verdict->text);
  return verdict;
}

}  // namespace trireme
