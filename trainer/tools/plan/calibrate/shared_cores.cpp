#include "trainer/tools/plan/calibrate/shared_cores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "model/base/error.h"
#include "model/device/memory.h"
#include "model/ops/gemm.h"
#include "trainer/tools/plan/calibrate/least_squares.h"
#include "trainer/tools/plan/calibrate/stopwatch.h"

namespace trireme {
namespace {

// A core's speed changes: each round measures everything, relative to a product in this round.
constexpr int kRounds = 8;
// Products between two meetings of the ranks.
constexpr std::array kProducts{1, 8, 64};
constexpr int kProductsBeforeMessage = 4;
// Of the larger messages; shorter than kSmallBytes an all-reduce is another one.
constexpr int kSmaller = 16;
constexpr std::array kMeasuredCollectives{Collective::kAllReduce, Collective::kReduceScatter,
                                          Collective::kAllGather, Collective::kAllToAll,
                                          Collective::kSend};

// Matrix products over weights in turn, which as those of a model exceed a core's cache.
class CpuWork {
 public:
  void operator()(Stream& stream, int products) {
    for (int i = 0; i < products; ++i) {
      turn_ = (turn_ + 1) % kWeights;
      ops::gemm(stream, matrix(0), matrix(1), matrix(2 + turn_), {.transpose_b = true});
    }
  }

 private:
  static constexpr std::int64_t kSide = 256;
  static constexpr std::int64_t kWeights = 64;  // 16 MiB
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kSide * kSide) * sizeof(float);
  Tensor matrix(std::int64_t index) const {
    return {memory_.data() + static_cast<std::size_t>(index) * kBytes,
            DType::kF32,
            {kSide, kSide},
            Device{}};
  }

  Memory memory_{(2 + kWeights) * kBytes, Device{}};
  std::int64_t turn_ = 0;
};

// Messages of one size in one group.
class GroupMessages {
 public:
  GroupMessages(Communicator& group, std::size_t bytes)
      : group_(group),
        count_(static_cast<std::int64_t>(bytes / sizeof(float)) / group.size()),
        memory_(2 * static_cast<std::size_t>(count_ * group.size()) * sizeof(float), Device{}) {}

  double sent(Collective collective) const {
    return bytes_sent(collective, group_.size(), static_cast<double>(whole(0).bytes()));
  }
  void meet(Stream& stream) { group_.all_reduce(stream, whole(0).slice(0, 16), Reduce::kSum); }
  void send(Stream& stream, Collective collective) {
    const int size = group_.size(), rank = group_.rank();
    if (size == 1) return;
    switch (collective) {
      case Collective::kAllReduce:
        return group_.all_reduce(stream, whole(0), Reduce::kSum);
      case Collective::kReduceScatter:
        return group_.reduce_scatter(stream, part(1), parts(0));
      case Collective::kAllGather:
        return group_.all_gather(stream, parts(0), part(1));
      case Collective::kAllToAll:
        return group_.all_to_all(stream, parts(0), parts(1));
      case Collective::kBroadcast:
      case Collective::kSend: {
        Transfer received = group_.start_receive(stream, whole(1), (rank + size - 1) % size);
        Transfer sent = group_.start_send(stream, whole(0), (rank + 1) % size);
        received.wait();
        sent.wait();
      }
    }
  }

 private:
  Tensor whole(std::int64_t index) const {
    const std::int64_t all = count_ * group_.size();
    return {memory_.data() + static_cast<std::size_t>(index * all) * sizeof(float),
            DType::kF32,
            {all},
            Device{}};
  }
  Tensor parts(std::int64_t index) const {
    return {whole(index).data, DType::kF32, {group_.size(), count_}, Device{}};
  }
  Tensor part(std::int64_t index) const { return whole(index).slice(0, count_); }

  Communicator& group_;
  const std::int64_t count_;  // elements of a rank's part
  const Memory memory_;
};

// By round.
using Samples = std::vector<double>;

class GroupCalibration {
 public:
  GroupCalibration(Communicator& node, Communicator& group, std::size_t bytes)
      : group_(group),
        stopwatch_(node, stream_),
        large_(group, bytes),
        small_(group, bytes / kSmaller) {}

  SharedCores measure() {
    prepare();
    for (int round = 0; round < kRounds; ++round) measure_once(round % 2 == 0);
    return result();
  }

 private:
  // Calls of a sample by its first time, and what libraries do only once.
  void prepare() {
    compute_(stream_, kProducts.back());
    large_.meet(stream_);
    for (const Collective collective : kMeasuredCollectives) large_.send(stream_, collective);
    product_ = stopwatch_.sample_alone([&] { compute_(stream_, 1); });
  }
  void measure_once(bool large) {
    alone_.push_back(stopwatch_.sample_alone([&] { compute_(stream_, 1); }));
    for (std::size_t i = 0; i < kProducts.size(); ++i) {
      met_[i].push_back(between(kProducts[i], [&] { large_.meet(stream_); }));
    }
    GroupMessages& messages = large ? large_ : small_;
    for (std::size_t i = 0; i < kMeasuredCollectives.size(); ++i) {
      (large ? large_sent_ : small_sent_)[i].push_back(between(
          kProductsBeforeMessage, [&] { messages.send(stream_, kMeasuredCollectives[i]); }));
    }
  }
  // Of messages over computation alone, for the length of samples.
  static constexpr double kOverhead = 1.5;
  // Computation with a message, over one product.
  template <class Message>
  double between(int products, const Message& message) {
    const double seconds = stopwatch_.sample_together(
        [&] {
          compute_(stream_, products);
          message();
        },
        stopwatch_.calls_of(kOverhead * products * product_));
    return seconds / alone_.back();
  }
  SharedCores result() const;

  Communicator& group_;
  Stream stream_{Device{}};
  Stopwatch stopwatch_;
  CpuWork compute_;
  GroupMessages large_, small_;
  double product_ = 0;
  Samples alone_;  // seconds of a product
  std::array<Samples, kProducts.size()> met_;
  std::array<Samples, kMeasuredCollectives.size()> large_sent_, small_sent_;
};

SharedCores GroupCalibration::result() const {
  const double product = middle_mean(alone_);
  const auto seconds = [&](const Samples& samples) { return product * middle_mean(samples); };
  std::vector<Measurement<2>> met;
  for (std::size_t i = 0; i < kProducts.size(); ++i) {
    const double computing = kProducts[i] * product;
    met.push_back(
        {.seconds = seconds(met_[i]), .known = computing, .parts = {1, std::sqrt(computing)}});
  }
  const auto [meeting, waiting] = least_squares(met);
  SharedCores found{.ranks = group_.size(), .waiting = waiting, .meeting = meeting};
  const double computing = kProductsBeforeMessage * product;
  const double before = computing + waiting * std::sqrt(computing);
  const std::array messages{&found.all_reduce, &found.reduce_scatter, &found.all_gather,
                            &found.all_to_all, &found.send};
  for (std::size_t i = 0; i < kMeasuredCollectives.size(); ++i) {
    constexpr double kFastest = 20e9;  // bytes/s: a copy in a core's cache
    const double few = small_.sent(kMeasuredCollectives[i]),
                 more = large_.sent(kMeasuredCollectives[i]) - few;
    const double little = seconds(small_sent_[i]);
    const double longer = std::max(seconds(large_sent_[i]) - little, more / kFastest);
    messages[i]->rate = more / longer;
    messages[i]->latency = std::max(little - before - few / messages[i]->rate, 0.0);
  }
  return found;
}

// 2, 4, ... and all.
std::vector<int> group_sizes(int ranks) {
  std::vector<int> sizes;
  for (int size = 2; size < ranks; size *= 2) sizes.push_back(size);
  sizes.push_back(ranks);
  return sizes;
}

}  // namespace

double middle_mean(std::vector<double> values) {
  require(!values.empty(), "the mean of no values");
  std::sort(values.begin(), values.end());
  const auto out = static_cast<std::ptrdiff_t>(values.size() / 4);
  const double sum = std::accumulate(values.begin() + out, values.end() - out, 0.0);
  return sum / static_cast<double>(std::ssize(values) - 2 * out);
}

std::vector<SharedCores> measure_shared_cores(World& world, const std::vector<int>& node,
                                              std::size_t bytes) {
  const auto all = world.split("calibration of shared cores", node);
  const auto own = std::find(node.begin(), node.end(), world.rank()) - node.begin();
  std::vector<SharedCores> measured;
  for (const int size : group_sizes(static_cast<int>(node.size()))) {
    const auto begin = node.begin() + own / size * size;
    const auto left = std::min<std::ptrdiff_t>(size, node.end() - begin);
    const auto group = world.split("calibration of shared cores", {begin, begin + left});
    measured.push_back(GroupCalibration(*all, *group, bytes).measure());
    measured.back().ranks = size;
  }
  return measured;
}

}  // namespace trireme
