#include <fmt/format.h>
#include <sys/resource.h>

#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

// Null means unlimited: JSON has no infinity.
Figures limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return nullptr;
  return static_cast<std::uint64_t>(limit.rlim_cur);
}

// MPI keeps connections to its peers, and ranks 0 and 1 to all watchdogs.
std::uint64_t files_for(int ranks) {
  constexpr std::uint64_t kOwn = 128, kEach = 2;
  return kOwn + kEach * static_cast<std::uint64_t>(ranks);
}

}  // namespace

Check process_limits(int ranks) {
  const auto measure = [ranks]() -> Figures {
    Figures found{{"files", limit_of(RLIMIT_NOFILE)}, {"locked_bytes", limit_of(RLIMIT_MEMLOCK)}};
    const std::uint64_t needed = files_for(ranks);
    if (found["files"].is_number() && found["files"].get<std::uint64_t>() < needed) {
      throw EnvironmentError(say("can open ", found["files"].get<std::uint64_t>(), " files, but ",
                                 ranks, " ranks need ", needed, ": raise ulimit -n"));
    }
    return found;
  };
  const auto judge = [](const std::vector<Figures>& by_rank) -> Judgment {
    const auto least = [&](const char* key, auto text_of) {
      std::uint64_t number = UINT64_MAX;
      for (const Figures& figures : by_rank) {
        if (figures[key].is_number()) {
          number = std::min(number, figures[key].get<std::uint64_t>());
        }
      }
      return number == UINT64_MAX ? std::string("unlimited") : text_of(number);
    };
    return {fmt::format("{} open files, {} of locked memory",
                        least("files", [](std::uint64_t n) { return fmt::format("{}", n); }),
                        least("locked_bytes", human_bytes)),
            {}};
  };
  return {"limits", measure, judge};
}

}  // namespace trireme::preflight
