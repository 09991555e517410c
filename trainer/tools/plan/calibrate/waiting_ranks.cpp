#include "trainer/tools/plan/calibrate/waiting_ranks.h"

#include <unistd.h>

#include <algorithm>

namespace trireme {
namespace {

// Of all ranks' work between two barriers.
constexpr double kSeconds = 0.064;
constexpr int kRounds = 4;

}  // namespace

bool share_cores(const Communicator& node) {
  return node.size() > sysconf(_SC_NPROCESSORS_ONLN);
}

WaitingRanks::WaitingRanks(Communicator& ranks, MachinePace& pace)
    : ranks_(ranks), share_cores_(share_cores(ranks)), stopwatch_(ranks, stream_, pace) {
  count_ = std::max(1, static_cast<int>(kSeconds / stopwatch_.alone([&] { product_(stream_); })));
}

// Of the products of those that work, until all know of their end.
double WaitingRanks::seconds(bool works) {
  return stopwatch_.together([&] {
    for (int i = 0; works && i < count_; ++i) product_(stream_);
    ranks_.barrier(stream_);
  });
}

void WaitingRanks::sample() {
  for (int round = 0; round < kRounds; ++round) {
    alone_ += count_ * stopwatch_.alone([&] { product_(stream_); });
    const bool first_half = ranks_.rank() < ranks_.size() / 2;
    waiting_ += seconds(!share_cores_ || first_half == (round % 2 == 0));
  }
}

void WaitingRanks::fill(DeviceProfile& profile) const {
  if (!share_cores_) {
    profile.network.lockstep = std::max(0.0, waiting_ / alone_ - 1);
    return;
  }
  profile.idle_time_used = 1;
  const double most = profile.pace(ranks_.size() / 2.0);
  profile.idle_time_used = std::clamp((alone_ / waiting_ - 1) / (most - 1), 0.0, 1.0);
}

}  // namespace trireme
