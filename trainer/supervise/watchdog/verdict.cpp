#include "trainer/supervise/watchdog/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace trireme {
namespace {

using flight::Operation;
using flight::Phase;

// Maximum number of ranks or calls in a list.
constexpr std::size_t kMostNamed = 8;
// Events within this many nanoseconds count as simultaneous. Slurm's controller takes some tens of
// milliseconds to kill the rest of a step.
constexpr std::int64_t kOneMoment = 10'000'000;

const RankReport& report_of(const WorldReport& world, int rank) {
  return world[static_cast<std::size_t>(rank)];
}

const RecordedGroup* find_group(const FlightRecorderPage& page, std::uint64_t key) {
  for (const RecordedGroup& group : page.groups) {
    if (!group.name.empty() && group.key == key) return &group;
  }
  return nullptr;
}

std::vector<int> members_of(const WorldReport& world, const RecordedGroup& group) {
  std::vector<int> members;
  for (std::size_t r = 0; r < world.size(); ++r) {
    if (find_group(world[r].page, group.key)) members.push_back(static_cast<int>(r));
  }
  return members;
}

std::uint64_t begun_by(const WorldReport& world, int rank, const RecordedGroup& group) {
  const RecordedGroup* own = find_group(report_of(world, rank).page, group.key);
  return own ? own->begun : 0;
}

// Failed or lost, so that the time is known: silence and reports about peers come later than their
// cause.
bool is_down(const RankReport& report) {
  return report.health == RankHealth::kFailed || report.health == RankHealth::kLost;
}

// Whether the rank was still alive when another of these failed.
bool went_down_later(const WorldReport& world, const RankReport& report, std::int64_t first) {
  if (first != 0 && (report.bad_since == 0 || report.bad_since > first + kOneMoment)) return true;
  return std::any_of(report.outlived.begin(), report.outlived.end(), [&](int rank) {
    return rank >= 0 && rank < static_cast<int>(world.size()) && is_down(report_of(world, rank));
  });
}

// The ranks that failed first; all that failed, if their order is unknown.
std::vector<int> first_down(const WorldReport& world) {
  std::int64_t first = 0;
  for (const RankReport& report : world) {
    if (!is_down(report) || report.bad_since == 0) continue;
    first = first == 0 ? report.bad_since : std::min(first, report.bad_since);
  }
  std::vector<int> all, earliest;
  for (int r = 0; r < static_cast<int>(world.size()); ++r) {
    if (!is_down(report_of(world, r))) continue;
    all.push_back(r);
    if (!went_down_later(world, report_of(world, r), first)) earliest.push_back(r);
  }
  return earliest.empty() ? all : earliest;
}

std::string numbers(const std::vector<int>& ranks) {
  if (ranks.size() <= kMostNamed) return fmt::format("{}", fmt::join(ranks, " "));
  return fmt::format("{} {} ... {}", ranks[0], ranks[1], ranks.back());
}

std::string names(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > kMostNamed) return fmt::format("{} ranks, {}", ranks.size(), numbers(ranks));
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return fmt::format("ranks {} and {}", fmt::join(first, ", "), ranks.back());
}

// " in step 2 of the ring": keys of context parallelism go to the rank that many places after, and
// their gradients come back. Empty for the messages of other groups.
std::string ring_step(const WorldReport& world, int rank, const RecordedGroup& group) {
  const bool goes_back = group.name == "context_back";
  if (group.name != "context" && group.name != "context_between" && !goes_back) return {};
  const FlightRecorderPage& page = report_of(world, rank).page;
  const std::vector<int> members = members_of(world, group);
  const auto place = [&](int member) {
    return std::find(members.begin(), members.end(), member) - members.begin();
  };
  const auto ahead = place(page.progress.peer) - place(rank);
  const bool is_ahead = (page.operation() == Operation::kSend) != goes_back;
  const auto count = std::ssize(members);
  return fmt::format(" in step {} of the ring", ((is_ahead ? ahead : -ahead) + count) % count);
}

std::string call_of(const WorldReport& world, int rank) {
  const FlightRecorderPage& page = report_of(world, rank).page;
  const RecordedGroup* group = page.group();
  if (!group) return {};
  const char* operation = flight::name_of(page.operation());
  if (is_message(page.operation())) {
    return fmt::format("{} {} of group {} {} rank {}{}", operation, page.progress.sequence,
                       group->name, page.operation() == Operation::kSend ? "to" : "from",
                       page.progress.peer, ring_step(world, rank, *group));
  }
  return fmt::format("{} {} of group {} [{}]", operation, page.progress.sequence, group->name,
                     numbers(members_of(world, *group)));
}

// All ranks that wait for one of `awaited`, directly or transitively.
std::vector<int> waiting_for(const WorldReport& world, std::vector<int> awaited) {
  std::vector<int> waiting;
  for (bool grows = true; grows;) {
    grows = false;
    for (int r = 0; r < static_cast<int>(world.size()); ++r) {
      if (std::count(awaited.begin(), awaited.end(), r) > 0) continue;
      const std::vector<int> needs = awaited_by(world, r);
      if (std::find_first_of(needs.begin(), needs.end(), awaited.begin(), awaited.end()) ==
          needs.end()) {
        continue;
      }
      awaited.push_back(r);
      waiting.push_back(r);
      grows = true;
    }
  }
  return waiting;
}

// "; blocked on it for 0.4 s: rank 3 in all_reduce ..., ranks 0 and 1 in ...".
std::string waiting_text(const WorldReport& world, const std::vector<int>& culprits) {
  const std::vector<int> waiting = waiting_for(world, culprits);
  if (waiting.empty()) return "; no rank is blocked on it yet";
  double longest = 0;
  std::vector<std::pair<std::string, std::vector<int>>> by_call;
  for (const int rank : waiting) {
    longest = std::max(longest, report_of(world, rank).waits_s());
    const std::string call = call_of(world, rank);
    auto found = std::find_if(by_call.begin(), by_call.end(),
                              [&](const auto& entry) { return entry.first == call; });
    if (found == by_call.end()) found = by_call.insert(found, {call, {}});
    found->second.push_back(rank);
  }
  std::vector<std::string> parts;
  for (auto& [call, ranks] : by_call) {
    std::sort(ranks.begin(), ranks.end());
    parts.push_back(fmt::format("{} in {}", names(ranks), call));
  }
  const std::size_t shown = std::min(parts.size(), kMostNamed);
  std::string more;
  if (shown < parts.size()) more = fmt::format(", and {} other calls", parts.size() - shown);
  parts.resize(shown);
  return fmt::format("; blocked on it for {:.1f} s: {}{}", longest, fmt::join(parts, ", "), more);
}

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string health_text(const RankReport& report) {
  switch (report.health) {
    case RankHealth::kLost:
      return "was killed or crashed (connection lost)";
    case RankHealth::kSilent:
      return fmt::format("sent no heartbeat for {:.1f} s (stopped, or its node is unreachable)",
                         report.silent_s);
    default:
      return "failed";
  }
}

Verdict blame(const WorldReport& world, std::vector<int> ranks, RankHealth health,
              const std::string& what) {
  const int first = ranks.front();
  const RankReport& report = report_of(world, first);
  std::string text =
      fmt::format("rank {} ({}) {} in {}", first, report.host, what, place_of(world, first));
  if (!report.words.empty()) text += ": " + on_one_line(report.words);
  text += waiting_text(world, ranks);
  if (ranks.size() > 1) {
    text += fmt::format("; also {}", names({ranks.begin() + 1, ranks.end()}));
  }
  return {std::move(ranks), health, std::move(text)};
}

Verdict blame_cycle(const WorldReport& world, std::vector<int> cycle, double unchanged_s) {
  std::vector<std::string> parts;
  for (const int rank : cycle) {
    parts.push_back(fmt::format("rank {} ({}) in {}, {}", rank, report_of(world, rank).host,
                                place_of(world, rank),
                                "waits for " + names(awaited_by(world, rank))));
  }
  parts.resize(std::min(parts.size(), kMostNamed));
  std::string text = fmt::format("deadlock for {:.1f} s: {}", unchanged_s, fmt::join(parts, "; "));
  return {std::move(cycle), RankHealth::kWell, std::move(text)};
}

}  // namespace

const char* name_of(RankHealth health) {
  switch (health) {
    case RankHealth::kWell:
      return "stalled";  // alive, but without progress
    case RankHealth::kLeft:
      return "left";
    case RankHealth::kPeerFailed:
      return "peer failed";
    case RankHealth::kSilent:
      return "silent";
    case RankHealth::kFailed:
      return "failed";
    case RankHealth::kLost:
      return "lost";
  }
  return "unknown";
}

std::string place_of(const WorldReport& world, int rank) {
  const flight::Progress& at = report_of(world, rank).page.progress;
  std::string text = at.step > 0 ? fmt::format("step {}, ", at.step) : std::string();
  text += flight::name_of(static_cast<Phase>(at.phase));
  if (at.micro_batch >= 0) text += fmt::format(" of micro-batch {}", at.micro_batch);
  if (at.layer >= 0) text += fmt::format(", layer {}", at.layer);
  const std::string call = call_of(world, rank);
  return call.empty() ? text : text + ", " + call;
}

std::vector<int> awaited_by(const WorldReport& world, int rank) {
  const FlightRecorderPage& page = report_of(world, rank).page;
  const RecordedGroup* group = page.group();
  if (!group || report_of(world, rank).health == RankHealth::kLeft) return {};
  if (is_message(page.operation())) return {page.progress.peer};
  std::vector<int> absent, inside;
  for (const int member : members_of(world, *group)) {
    if (member == rank) continue;
    const FlightRecorderPage& other = report_of(world, member).page;
    const RecordedGroup& theirs = *find_group(other, group->key);
    // It has counted the call and is not in it: it was stopped on entry, or computes meanwhile.
    const bool is_outside = !other.group() && theirs.finished < page.progress.sequence;
    if (theirs.begun < page.progress.sequence || is_outside) absent.push_back(member);
    if (theirs.finished < page.progress.sequence && is_bad(report_of(world, member).health)) {
      inside.push_back(member);
    }
  }
  return absent.empty() ? inside : absent;
}

bool all_wait(const WorldReport& world) {
  for (std::size_t r = 0; r < world.size(); ++r) {
    if (world[r].health != RankHealth::kWell) continue;
    if (awaited_by(world, static_cast<int>(r)).empty()) return false;
  }
  return true;
}

std::optional<Verdict> judge_health(const WorldReport& world) {
  const std::vector<int> down = first_down(world);
  std::vector<int> suspects = down;
  if (down.empty()) {
    suspects.resize(world.size());
    std::iota(suspects.begin(), suspects.end(), 0);
  }
  RankHealth worst = RankHealth::kWell;
  for (const int rank : suspects) worst = std::max(worst, report_of(world, rank).health);
  if (worst <= RankHealth::kLeft) return std::nullopt;
  std::erase_if(suspects, [&](int rank) { return report_of(world, rank).health != worst; });
  Verdict verdict = blame(world, suspects, worst, health_text(report_of(world, suspects.front())));
  std::vector<int> later;
  for (int r = 0; r < static_cast<int>(world.size()); ++r) {
    const bool is_first = std::count(down.begin(), down.end(), r) > 0;
    if (is_down(report_of(world, r)) && !is_first) later.push_back(r);
  }
  if (!later.empty()) verdict.text += fmt::format("; {} exited after it", names(later));
  return verdict;
}

double StallLimits::of(const FlightRecorderPage& page) const {
  const Phase phase = page.phase();
  const bool waits_for_storage =
      phase == Phase::kStart || phase == Phase::kLoad || phase == Phase::kSave;
  return waits_for_storage ? std::max(usual_s, storage_s) : usual_s;
}

std::optional<Verdict> judge_stall(const WorldReport& world, const StallLimits& limits) {
  int at = -1;
  for (int r = 0; r < static_cast<int>(world.size()); ++r) {
    if (!report_of(world, r).page.group()) continue;
    if (at < 0 || report_of(world, r).waits_s() > report_of(world, at).waits_s()) at = r;
  }
  if (at < 0) return std::nullopt;
  std::vector<int> path;
  while (std::count(path.begin(), path.end(), at) == 0) {
    path.push_back(at);
    const std::vector<int> needs = awaited_by(world, at);
    if (needs.empty()) break;
    const RecordedGroup* group = report_of(world, at).page.group();
    at = *std::min_element(needs.begin(), needs.end(), [&](int a, int b) {
      return begun_by(world, a, *group) < begun_by(world, b, *group);
    });
  }
  const auto unchanged = [&](int rank) { return report_of(world, rank).unchanged_s(); };
  if (!awaited_by(world, path.back()).empty()) {
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    double shortest = unchanged(path.front()), limit = 0;
    for (const int rank : path) {
      shortest = std::min(shortest, unchanged(rank));
      limit = std::max(limit, limits.of(report_of(world, rank).page));
    }
    if (shortest < limit) return std::nullopt;
    return blame_cycle(world, std::move(path), shortest);
  }
  const int last = path.back();
  if (unchanged(last) < limits.of(report_of(world, last).page)) return std::nullopt;
  const bool waits = report_of(world, last).page.group() != nullptr;
  return blame(world, {last}, RankHealth::kWell,
               fmt::format("made no progress for {:.1f} s{}", unchanged(last),
                           waits ? ", although no rank is missing," : ""));
}

}  // namespace trireme
