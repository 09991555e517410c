#include "tests/nccl_emulator/step_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/nccl_emulator/device_values.h"

namespace trireme::test {
namespace {

constexpr std::size_t kCount = 24;
constexpr int kMicroBatches = 4, kBuckets = 3;

// Ranks in the order of the product's mesh: tensor innermost, pipeline outermost.
class Places {
 public:
  Places(const Axes& axes, int rank)
      : axes_(axes),
        stage_(rank / (axes.data * axes.tensor)),
        data_(rank / axes.tensor % axes.data),
        tensor_(rank % axes.tensor) {}
  int stage() const { return stage_; }

  // The ranks that differ from this one along the axes given only.
  std::vector<int> along(bool pipeline, bool data, bool tensor) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < axes_.ranks(); ++rank) {
      const Places other(axes_, rank);
      if ((pipeline || other.stage_ == stage_) && (data || other.data_ == data_) &&
          (tensor || other.tensor_ == tensor_)) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

 private:
  Axes axes_;
  int stage_, data_, tensor_;
};

struct Work {
  bool forward;
  int micro_batch;
};

std::vector<Work> one_forward_one_backward(int stage, int stages) {
  std::vector<Work> order;
  int forward = 0, backward = 0;
  const int ahead = std::min(stages - stage - 1, kMicroBatches);
  while (forward < ahead) order.push_back({true, forward++});
  while (backward < kMicroBatches) {
    if (forward < kMicroBatches) order.push_back({true, forward++});
    order.push_back({false, backward++});
  }
  return order;
}

class StepRank {
 public:
  StepRank(EmulatedRank& own, const Axes& axes)
      : axes_(axes),
        places_(axes, own.rank),
        tensor_(own.group("tensor", places_.along(false, false, true))),
        down_(own.group("pipeline_down", places_.along(true, false, false), Messages::kSent)),
        up_(own.group("pipeline_up", places_.along(true, false, false), Messages::kSent)),
        data_(own.group("data", places_.along(false, true, false))),
        expert_(own.group("expert", places_.along(false, true, true), Messages::kExchanged)),
        all_(own.group("all", places_.along(true, true, true))),
        stream_(own.device) {
    const std::vector<float> zeros(kCount);
    for (int i = 0; i < 2 * kMicroBatches; ++i) {
      boundaries_.push_back(std::make_unique<DeviceValues>(zeros, stream_));
    }
    const std::size_t blocks = kCount * static_cast<std::size_t>(expert_->size());
    sent_ = std::make_unique<DeviceValues>(std::vector<float>(blocks, 1), stream_);
    received_ = std::make_unique<DeviceValues>(std::vector<float>(blocks), stream_);
    for (int i = 0; i < kBuckets; ++i) {
      buckets_.push_back(std::make_unique<DeviceValues>(std::vector<float>(900), stream_));
    }
    norm_ = std::make_unique<DeviceValues>(std::vector<float>(1), stream_);
  }

  void step() {
    const std::vector<Work> order = one_forward_one_backward(places_.stage(), axes_.pipeline);
    std::vector<Transfer> coming(order.size()), going, sums;
    std::size_t started = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (; started < std::min(order.size(), i + 2); ++started) {
        coming[started] = start_receive(order[started]);
      }
      coming[i].wait();
      compute(order[i]);
      going.push_back(start_send(order[i]));
    }
    for (const auto& bucket : buckets_) {
      bucket->write(std::vector<float>(900, 1));
      sums.push_back(data_->start_all_reduce(stream_, bucket->tensor(), Reduce::kSum));
    }
    for (Transfer& transfer : going) transfer.wait();
    for (Transfer& sum : sums) sum.wait();
    norm_->write({1});
    all_->all_reduce(stream_, norm_->tensor(), Reduce::kSum);
    all_->all_reduce(stream_, norm_->tensor(), Reduce::kMax);
    check();
  }

 private:
  DeviceValues& boundary(const Work& work) {
    return *boundaries_[static_cast<std::size_t>(2 * work.micro_batch + (work.forward ? 0 : 1))];
  }
  bool begins(const Work& work) const {
    return places_.stage() == (work.forward ? 0 : axes_.pipeline - 1);
  }
  bool ends(const Work& work) const {
    return places_.stage() == (work.forward ? axes_.pipeline - 1 : 0);
  }
  Transfer start_receive(const Work& work) {
    if (begins(work)) return {};
    Communicator& link = work.forward ? *down_ : *up_;
    return link.start_receive(stream_, boundary(work).tensor(),
                              places_.stage() + (work.forward ? -1 : 1));
  }
  Transfer start_send(const Work& work) {
    if (ends(work)) return {};
    Communicator& link = work.forward ? *down_ : *up_;
    return link.start_send(stream_, boundary(work).tensor(),
                           places_.stage() + (work.forward ? 1 : -1));
  }
  static float first_value(const Work& work) {
    return static_cast<float>(work.micro_batch + (work.forward ? 1 : 10));
  }
  // Every stage multiplies by the number of its tensor ranks.
  void compute(const Work& work) {
    DeviceValues& values = boundary(work);
    if (begins(work)) values.write(std::vector<float>(kCount, first_value(work)));
    tensor_->all_reduce(stream_, values.tensor(), Reduce::kSum);
    if (work.forward) expert_->all_to_all(stream_, received_->tensor(), sent_->tensor());
  }
  void check() {
    for (int m = 0; m < kMicroBatches; ++m) {
      for (const bool forward : {true, false}) {
        float expected = first_value({forward, m});
        const int passed = forward ? places_.stage() + 1 : axes_.pipeline - places_.stage();
        for (int i = 0; i < passed; ++i) expected *= static_cast<float>(axes_.tensor);
        ASSERT_EQ(boundary({forward, m}).read(), std::vector<float>(kCount, expected));
      }
    }
    for (const auto& bucket : buckets_) {
      ASSERT_EQ(bucket->read(), std::vector<float>(900, static_cast<float>(axes_.data)));
    }
    ASSERT_EQ(norm_->read().front(), static_cast<float>(axes_.ranks()));
    ASSERT_EQ(received_->read().back(), 1);
  }

  Axes axes_;
  Places places_;
  std::unique_ptr<Communicator> tensor_, down_, up_, data_, expert_, all_;
  Stream stream_;
  std::vector<std::unique_ptr<DeviceValues>> boundaries_, buckets_;
  std::unique_ptr<DeviceValues> sent_, received_, norm_;
};

}  // namespace

void communicate(EmulatedRank& own, const Axes& axes, int steps) {
  StepRank rank(own, axes);
  for (int i = 0; i < steps; ++i) rank.step();
}

}  // namespace trireme::test
