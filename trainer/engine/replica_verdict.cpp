#include "trainer/engine/replica_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace trireme {
namespace {

using Ranks = std::set<int>;

// Ranks grouped by the bits of their copy of the same elements, the largest group first.
std::vector<Ranks> by_bits(const std::map<std::uint64_t, Ranks>& holders) {
  std::vector<Ranks> groups;
  for (const auto& [hash, ranks] : holders) groups.push_back(ranks);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Ranks& a, const Ranks& b) { return a.size() > b.size(); });
  return groups;
}

bool has_majority(const std::vector<Ranks>& groups) {
  return groups[0].size() > groups[1].size();
}

Ranks joined(const std::vector<Ranks>& groups, std::size_t from) {
  Ranks all;
  for (std::size_t i = from; i < groups.size(); ++i) all.insert(groups[i].begin(), groups[i].end());
  return all;
}

bool meet(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(), [&](int rank) { return b.contains(rank); });
}

std::string counted(const std::vector<int>& ranks) {
  const std::string last = std::to_string(ranks.back());
  if (ranks.size() == 1) return "rank " + last;
  constexpr std::size_t kShown = 8;
  const std::size_t before = ranks.size() - 1;
  if (before > kShown) {
    return fmt::format("ranks {} and {} more",
                       fmt::join(ranks.begin(), ranks.begin() + kShown, ", "),
                       ranks.size() - kShown);
  }
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), last);
}

// "rank 2 on node7 and rank 3 on node8".
std::string with_hosts(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::format("rank {} on {}", ranks[i], hosts[ranks[i]]);
  }
  return text;
}

}  // namespace

std::optional<ReplicaVerdict> judge_replicas(const std::vector<std::vector<HeldCopy>>& held) {
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, Ranks>> all;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    for (const HeldCopy& copy : held[rank]) {
      all[{copy.tensor, copy.place}][copy.hash].insert(static_cast<int>(rank));
    }
  }
  struct Difference {
    std::string tensor;
    std::vector<Ranks> groups;
  };
  std::vector<Difference> differences;
  Ranks blamed;
  for (const auto& [what, holders] : all) {
    if (holders.size() < 2) continue;
    differences.push_back({what.first, by_bits(holders)});
    const std::vector<Ranks>& groups = differences.back().groups;
    if (has_majority(groups)) blamed.merge(joined(groups, 1));
  }
  if (differences.empty()) return std::nullopt;
  ReplicaVerdict verdict;
  const Ranks by_majority = blamed;
  for (const Difference& difference : differences) {
    if (has_majority(difference.groups)) continue;
    const Ranks holders = joined(difference.groups, 0);
    if (meet(holders, by_majority)) continue;  // one of them is known to be wrong
    blamed.merge(Ranks(holders));
    verdict.by_majority = false;
  }
  verdict.ranks.assign(blamed.begin(), blamed.end());
  for (const Difference& difference : differences) {
    if (verdict.tensors.empty() || verdict.tensors.back() != difference.tensor) {
      verdict.tensors.push_back(difference.tensor);
    }
  }
  for (const int rank : joined(differences.front().groups, 0)) {
    if (!blamed.contains(rank)) verdict.others.push_back(rank);
  }
  return verdict;
}

std::string text_of(const ReplicaVerdict& verdict, const std::vector<std::string>& hosts) {
  const std::string who = with_hosts(verdict.ranks, hosts);
  const std::size_t more = verdict.tensors.size() - 1;
  const std::string what =
      verdict.tensors.front() + (more == 0 ? "" : fmt::format(" and of {} more tensors", more));
  if (verdict.by_majority && !verdict.others.empty()) {
    return fmt::format("{} {} different bits of {} than the replicas on {}", who,
                       verdict.ranks.size() == 1 ? "holds" : "hold", what, counted(verdict.others));
  }
  return fmt::format("{} hold different bits of {}, which should be identical{}", who, what,
                     verdict.by_majority ? "" : "; no majority tells which are right");
}

std::string copies_text(const std::vector<HeldCopy>& copies) {
  std::string text;
  for (const HeldCopy& copy : copies) {
    text += fmt::format("{} {} {}\n", copy.hash, copy.place, copy.tensor);
  }
  return text;
}

std::vector<HeldCopy> parse_copies(const std::string& text) {
  std::vector<HeldCopy> copies;
  std::istringstream lines(text);
  HeldCopy copy;
  while (lines >> copy.hash >> copy.place && lines.ignore() && std::getline(lines, copy.tensor)) {
    copies.push_back(copy);
  }
  return copies;
}

}  // namespace trireme
