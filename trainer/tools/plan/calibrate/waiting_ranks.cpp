#include "trainer/tools/plan/calibrate/waiting_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "model/base/median.h"
#include "model/tensor/host_tensor.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Of work in a sample, for each rank of a core: many time slices of the scheduler, as the first and
// the last are unlike the others.
constexpr double kSeconds = 0.064;
constexpr int kRounds = 10, kRoundsOfGroups = 4;
// About as many FLOPs as a layer of a small model has between two messages.
constexpr int kBetweenMessages = 2;
constexpr std::int64_t kSideOfProducts = 384;
// After which a rank waits for a message about as long as after none.
constexpr std::int64_t kSideOfLittle = 64;
constexpr int kMostMatmuls = 1000;

void slow_down(ProductRate& rate, double factor) {
  rate.product /= factor;
  for (auto* own : {&rate.grouped, &rate.weight_gradient, &rate.grouped_weight_gradient}) {
    if (*own) (*own)->product /= factor;
  }
}

// A sample above this multiple of the least contains a stop of the program, and is left out.
// Samples are so long that most of them may.
constexpr double kMostOverLeast = 1.5;

double usual_mean(const std::vector<double>& slowdowns) {
  const double most = kMostOverLeast * *std::min_element(slowdowns.begin(), slowdowns.end());
  double sum = 0, count = 0;
  for (const double slowdown : slowdowns) {
    if (slowdown > most) continue;
    sum += slowdown;
    ++count;
  }
  return sum / count;
}

double lockstep_of(const std::vector<double>& slowdowns) {
  return std::max(0.0, usual_mean(slowdowns) - 1);
}

}  // namespace

double ranks_per_core(const Communicator& node) {
  return std::max(1.0, node.size() / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
}

bool share_cores(const Communicator& node) {
  return ranks_per_core(node) > 1;
}

WaitingRanks::Products::Products(Communicator& ranks, const MachinePace& clock, std::int64_t side,
                                 DType dtype)
    : ranks_(ranks), clock_(clock), product_(side, dtype) {
  constexpr int kFirst = 8;
  product_(stream_);
  const double begin = clock_.now();
  for (int i = 0; i < kFirst; ++i) product_(stream_);
  double seconds[] = {clock_.now() - begin};
  ranks_.all_reduce(stream_, host_tensor(std::span(seconds)), Reduce::kMax);
  const double of_core = kSeconds * ranks_per_core(ranks);
  count_ = std::clamp(static_cast<int>(kFirst * of_core / seconds[0]), 1, kMostMatmuls);
}

WaitingRanks::Spell WaitingRanks::Products::spell(bool computes, Communicator* group,
                                                  int between_messages) {
  float small[16] = {};
  Spell spell;
  ranks_.barrier(stream_);
  const double begin = seconds_now();
  double computing = 0;
  for (int i = 1; i <= count_; ++i) {
    const double before = clock_.now();
    if (computes) product_(stream_);
    computing += clock_.now() - before;
    if (!group || i % between_messages != 0) continue;
    group->all_reduce(stream_, host_tensor(std::span(small)), Reduce::kSum);
    ++spell.messages;
  }
  ranks_.barrier(stream_);
  // Ranks that share a core begin one after the other.
  double limits[] = {-begin, seconds_now()};
  ranks_.all_reduce(stream_, host_tensor(std::span(limits)), Reduce::kMax);
  double sums[] = {computes ? computing : 0, computes ? 1.0 : 0.0};
  ranks_.all_reduce(stream_, host_tensor(std::span(sums)), Reduce::kSum);
  spell.passed = limits[1] + limits[0];
  spell.computing = sums[0] / sums[1];
  return spell;
}

WaitingRanks::WaitingRanks(Communicator& ranks, const Groups& groups, const MachinePace& clock)
    : ranks_(ranks),
      share_cores_(share_cores(ranks)),
      in_first_half_(ranks.rank() < ranks.size() / 2),
      products_(ranks, clock, kSideOfProducts, DType::kF32),
      half_products_(ranks, clock, kSideOfProducts, DType::kBf16),
      little_(ranks, clock, kSideOfLittle, DType::kF32) {
  if (!share_cores_) return;
  for (const std::unique_ptr<Communicator>& group : groups) {
    waits_of_groups_.push_back({group.get(), {}, {}, {}});
  }
  waits_of_groups_.push_back({&ranks, {}, {}, {}});
}

void WaitingRanks::sample() {
  if (!share_cores_) {
    for (int round = 0; round < kRounds; ++round) {
      of_all_.push_back(products_.spell(true).slowdown());
      of_all_in_bfloat16_.push_back(half_products_.spell(true).slowdown());
    }
    return;
  }
  for (int round = 0; round < kRoundsOfGroups; ++round) {
    for (GroupWaits& waits : waits_of_groups_) {
      waits.slowdowns.push_back(products_.spell(true, waits.group, kBetweenMessages).slowdown());
      const Spell spell = little_.spell(true, waits.group);
      waits.between.push_back(spell.between_messages());
      waits.waiting.push_back(spell.waiting_for_message());
    }
    of_one_half_.push_back(products_.spell(in_first_half_ == (round % 2 == 0)).slowdown());
  }
}

void WaitingRanks::fill(DeviceProfile& profile) const {
  Network& network = profile.network;
  if (!share_cores_) {
    const double slower = lockstep_of(of_all_), half_slower = lockstep_of(of_all_in_bfloat16_);
    network.lockstep = slower;
    slow_down(profile.rates[static_cast<std::size_t>(NumberFormat::kHalf)],
              (1 + std::max(slower, half_slower)) / (1 + slower));
    return;
  }
  profile.idle_time_used = 1;
  const double most = profile.pace(ranks_.size() / 2.0);
  profile.idle_time_used = std::clamp((1 / usual_mean(of_one_half_) - 1) / (most - 1), 0.0, 1.0);
  for (std::size_t i = 0; i < waits_of_groups_.size(); ++i) {
    const GroupWaits& waits = waits_of_groups_[i];
    const bool of_all = i == network.within_groups.size();
    double& lockstep = of_all ? network.lockstep : network.within_groups[i].lockstep;
    lockstep = lockstep_of(waits.slowdowns);
    const double waiting = median(waits.waiting) - lockstep * median(waits.between);
    Link& link = of_all ? network.within : network.within_groups[i].link;
    link.latency = std::max(waiting, 0.0) / (2.0 * (waits.group->size() - 1));
  }
}

}  // namespace trireme
