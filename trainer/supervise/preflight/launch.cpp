#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

std::string launcher() {
  if (environment_variable("OMPI_COMM_WORLD_SIZE")) return "mpirun";
  if (environment_variable("PMIX_RANK")) return "srun with PMIx";
  return "hand";
}

Judgment judge_ranks(const std::vector<Figures>& by_rank) {
  std::map<std::string, int> ranks_of;
  for (const std::string& host : texts_of(by_rank, "host")) ++ranks_of[host];
  const auto [least, most] =
      std::minmax_element(ranks_of.begin(), ranks_of.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  const Figures& first = by_rank.front();
  std::string each = fmt::format("{}", most->second);
  if (least->second != most->second) each = fmt::format("{} to {}", least->second, most->second);
  Judgment judgment;
  judgment.text =
      fmt::format("{} started by {} on {} host{}, {} each; tensor transport {}", by_rank.size(),
                  first["launcher"].get<std::string>(), ranks_of.size(),
                  ranks_of.size() == 1 ? "" : "s", each, first["transport"].get<std::string>());
  const Majority found = majority(texts_of(by_rank, "transport"));
  if (!found.others.empty()) {
    judgment.faults.push_back(
        {found.others,
         fmt::format("tensor transport is not {}, as on the other ranks", found.value)});
  }
  return judgment;
}

}  // namespace

Check launch(const World& world) {
  const auto measure = [&world]() -> Figures {
    return {{"host", world.hosts()[world.rank()]},
            {"local_rank", world.local_rank()},
            {"launcher", launcher()},
            {"transport", world.transport()}};
  };
  return {"ranks", measure, judge_ranks};
}

}  // namespace trireme::preflight
