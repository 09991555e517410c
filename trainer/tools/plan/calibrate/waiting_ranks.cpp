#include "trainer/tools/plan/calibrate/waiting_ranks.h"

#include <unistd.h>

#include <algorithm>

namespace trireme {
namespace {

// Of all ranks' work between two barriers.
constexpr double kSeconds = 0.064;
constexpr int kRounds = 2;
constexpr std::int64_t kSideOfProducts = 384;

void slow_down(ProductRate& rate, double factor) {
  rate.product /= factor;
  for (auto* own : {&rate.grouped, &rate.weight_gradient, &rate.grouped_weight_gradient}) {
    if (*own) (*own)->product /= factor;
  }
}

}  // namespace

bool share_cores(const Communicator& node) {
  return node.size() > sysconf(_SC_NPROCESSORS_ONLN);
}

WaitingRanks::Products::Products(Communicator& ranks, MachinePace& pace, DType dtype)
    : ranks_(ranks), stopwatch_(ranks, stream_, pace), product_(kSideOfProducts, dtype) {
  count_ = std::max(1, static_cast<int>(kSeconds / alone()));
}

double WaitingRanks::Products::alone() {
  return count_ * stopwatch_.alone([&] { product_(stream_); });
}

double WaitingRanks::Products::until_all_end(bool works) {
  return stopwatch_.together([&] {
    for (int i = 0; works && i < count_; ++i) product_(stream_);
    ranks_.barrier(stream_);
  });
}

WaitingRanks::WaitingRanks(Communicator& ranks, MachinePace& pace, MachinePace& half_pace)
    : share_cores_(share_cores(ranks)),
      in_first_half_(ranks.rank() < ranks.size() / 2),
      ranks_(ranks.size()),
      products_(ranks, pace, DType::kF32),
      half_products_(ranks, half_pace, DType::kBf16) {}

void WaitingRanks::sample() {
  for (int round = 0; round < kRounds; ++round) {
    alone_ += products_.alone();
    waiting_ += products_.until_all_end(!share_cores_ || in_first_half_ == (round % 2 == 0));
    if (share_cores_) continue;
    half_alone_ += half_products_.alone();
    half_waiting_ += half_products_.until_all_end(true);
  }
}

void WaitingRanks::fill(DeviceProfile& profile) const {
  if (!share_cores_) {
    const double slower = std::max(1.0, waiting_ / alone_),
                 half_slower = std::max(slower, half_waiting_ / half_alone_);
    profile.network.lockstep = slower - 1;
    slow_down(profile.rates[static_cast<std::size_t>(NumberFormat::kHalf)], half_slower / slower);
    return;
  }
  profile.idle_time_used = 1;
  const double most = profile.pace(ranks_ / 2.0);
  profile.idle_time_used = std::clamp((alone_ / waiting_ - 1) / (most - 1), 0.0, 1.0);
}

}  // namespace trireme
