#include "trainer/tools/plan/calibrate/waiting_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "model/base/median.h"
#include "model/tensor/host_tensor.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Of work in a sample, by the clock of ranks at work.
constexpr double kSeconds = 0.064;
constexpr int kRounds = 10;
// About as many FLOPs as a layer of a small model has between two messages.
constexpr int kBetweenMessages = 2;
constexpr std::int64_t kSideOfProducts = 384;

void slow_down(ProductRate& rate, double factor) {
  rate.product /= factor;
  for (auto* own : {&rate.grouped, &rate.weight_gradient, &rate.grouped_weight_gradient}) {
    if (*own) (*own)->product /= factor;
  }
}

// Without those in which the program was stopped for a while.
double usual_mean(const std::vector<double>& slowdowns) {
  const double most = 2 * median(slowdowns);
  double sum = 0, count = 0;
  for (const double slowdown : slowdowns) {
    if (slowdown > most) continue;
    sum += slowdown;
    ++count;
  }
  return sum / count;
}

}  // namespace

double ranks_per_core(const Communicator& node) {
  return std::max(1.0, node.size() / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
}

bool share_cores(const Communicator& node) {
  return ranks_per_core(node) > 1;
}

WaitingRanks::Products::Products(Communicator& ranks, const MachinePace& clock, DType dtype)
    : ranks_(ranks), clock_(clock), product_(kSideOfProducts, dtype) {
  constexpr int kFirst = 8;
  product_(stream_);
  const double begin = clock_.now();
  for (int i = 0; i < kFirst; ++i) product_(stream_);
  double seconds[] = {clock_.now() - begin};
  ranks_.all_reduce(stream_, host_tensor(std::span(seconds)), Reduce::kMax);
  count_ = std::max(1, static_cast<int>(kFirst * kSeconds / seconds[0]));
}

double WaitingRanks::Products::slowdown(bool works, int between_messages) {
  ranks_.barrier(stream_);
  const double begin = seconds_now();
  double work = 0;
  for (int i = 0; i < count_; ++i) {
    const double before = clock_.now();
    if (works) product_(stream_);
    work += clock_.now() - before;
    if (between_messages > 0 && i % between_messages == 0) ranks_.barrier(stream_);
  }
  ranks_.barrier(stream_);
  const double waited = seconds_now() - begin;
  // Of the ranks that work.
  double sums[] = {works ? waited : 0, works ? work : 0};
  ranks_.all_reduce(stream_, host_tensor(std::span(sums)), Reduce::kSum);
  return sums[0] / sums[1];
}

WaitingRanks::WaitingRanks(Communicator& ranks, const MachinePace& clock)
    : share_cores_(share_cores(ranks)),
      in_first_half_(ranks.rank() < ranks.size() / 2),
      ranks_(ranks.size()),
      products_(ranks, clock, DType::kF32),
      half_products_(ranks, clock, DType::kBf16) {}

void WaitingRanks::sample() {
  for (int round = 0; round < kRounds; ++round) {
    if (share_cores_) {
      of_all_.push_back(products_.slowdown(true, kBetweenMessages));
      of_one_half_.push_back(products_.slowdown(in_first_half_ == (round % 2 == 0)));
    } else {
      of_all_.push_back(products_.slowdown(true));
      of_all_in_bfloat16_.push_back(half_products_.slowdown(true));
    }
  }
}

void WaitingRanks::fill(DeviceProfile& profile) const {
  const double slower = std::max(1.0, usual_mean(of_all_));
  profile.network.lockstep = slower - 1;
  if (!share_cores_) {
    const double half_slower = std::max(slower, usual_mean(of_all_in_bfloat16_));
    slow_down(profile.rates[static_cast<std::size_t>(NumberFormat::kHalf)], half_slower / slower);
    return;
  }
  profile.idle_time_used = 1;
  const double most = profile.pace(ranks_ / 2.0);
  profile.idle_time_used = std::clamp((1 / usual_mean(of_one_half_) - 1) / (most - 1), 0.0, 1.0);
}

}  // namespace trireme
