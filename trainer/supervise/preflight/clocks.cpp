#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/tensor/host_tensor.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

template <class Clock>
double seconds_of() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Clock offset of this rank from rank 0 in seconds, from the round in which the ranks left the
// barrier with the least delay; `uncertain` is that delay.
struct Offset {
  double seconds = 0;
  double uncertain = 0;
};

Offset offset_from_first(Communicator& all) {
  constexpr int kRounds = 8;
  Offset best{0, 1e9};
  Stream stream;
  for (int round = 0; round < kRounds; ++round) {
    const double from = seconds_of<std::chrono::steady_clock>();
    all.barrier(stream);
    double theirs[] = {seconds_of<std::chrono::system_clock>()};
    const double own = theirs[0];
    all.broadcast(stream, host_tensor(std::span(theirs)), 0);
    const double took = seconds_of<std::chrono::steady_clock>() - from;
    if (took < best.uncertain) best = {own - theirs[0], took};
  }
  return best;
}

}  // namespace

Check clocks(Communicator& all) {
  const auto measure = [&all]() -> Figures {
    const Offset offset = offset_from_first(all);
    return {{"offset_s", offset.seconds}, {"uncertain_s", offset.uncertain}};
  };
  const auto judge = [](const std::vector<Figures>& by_rank) -> Judgment {
    const std::vector<double> offsets = numbers_of(by_rank, "offset_s");
    const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
    const std::vector<double> uncertain = numbers_of(by_rank, "uncertain_s");
    return {fmt::format("{:.1f} ms apart (measured to within {:.1f} ms)", 1e3 * (*most - *least),
                        1e3 * *std::max_element(uncertain.begin(), uncertain.end())),
            {}};
  };
  return {"clocks", measure, judge};
}

}  // namespace trireme::preflight
