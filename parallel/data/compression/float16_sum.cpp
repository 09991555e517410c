#include "parallel/data/compression/compressed_sum.h"

#include <algorithm>
#include <cmath>

#include "model/base/half.h"
#include "model/device/cpu/threads.h"

namespace trireme {
namespace {

constexpr std::int64_t kGrain = 16384;

std::uint16_t* halves(const Tensor& words) {
  return reinterpret_cast<std::uint16_t*>(words.as<std::int32_t>());
}

// Infinity if any element is NaN.
template <class T>
float largest_magnitude(const T* x, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(static_cast<float>(x[i]));
    if (!(magnitude <= largest)) largest = std::isnan(magnitude) ? HUGE_VALF : magnitude;
  }
  return largest;
}

class Float16Sum final : public CompressedSum {
 public:
  Float16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  float common_scale(Stream& stream);

  Communicator& group_;
  Tensor gradients_;
  std::int64_t part_;       // elements summed per rank
  Tensor sent_, received_;  // [ranks, part] float16, two per word
  Tensor largest_;          // [1]
};

Float16Sum::Float16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory)
    : group_(group), gradients_(range.gradients) {
  const std::int64_t ranks = group.size();
  part_ = ((gradients_.count() + ranks - 1) / ranks + 1) / 2 * 2;
  sent_ = memory.messages.take({ranks, part_ / 2}, DType::kI32);
  received_ = memory.messages.take({ranks, part_ / 2}, DType::kI32);
  largest_ = memory.messages.take({1});
}

// With this scale the sum of the ranks' largest gradients is at most 2^15. Returns 1 if one is
// infinite.
float Float16Sum::common_scale(Stream& stream) {
  if (stream.executes()) {
    with_elements(gradients_, [&](const auto* gradients) {
      *largest_.as<float>() = largest_magnitude(gradients, gradients_.count());
    });
  }
  group_.all_reduce(stream, largest_, Reduce::kMax);
  const float largest = stream.executes() ? *largest_.as<float>() : 0;
  if (largest == 0 || !std::isfinite(largest)) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  const int room = 15 - exponent - static_cast<int>(std::ceil(std::log2(group_.size())));
  return std::ldexp(1.0f, std::clamp(room, -126, 126));
}

void Float16Sum::reduce(Stream& stream, std::int64_t) {
  const float scale = common_scale(stream);
  const std::int64_t count = gradients_.count(), mine = group_.rank() * part_;
  const auto for_each = [&](std::int64_t elements, const auto& body) {
    if (!stream.executes()) return;
    cpu::parallel_for(elements, kGrain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) body(i);
    });
  };
  std::uint16_t* const sent = halves(sent_);
  std::uint16_t* const received = halves(received_);
  with_elements(gradients_, [&](const auto* gradients) {
    for_each(count, [&](std::int64_t i) {
      sent[i] = half_bits(static_cast<float>(gradients[i]) * scale);
    });
  });
  group_.all_to_all(stream, received_, sent_);
  for_each(part_, [&](std::int64_t i) {
    float sum = 0;
    for (int r = 0; r < group_.size(); ++r) sum += half_value(received[r * part_ + i]);
    sent[mine + i] = half_bits(sum);
  });
  group_.all_gather(stream, sent_, sent_.slice(mine / 2, part_ / 2));
  with_elements(gradients_, [&](auto* gradients) {
    for_each(count, [&](std::int64_t i) { gradients[i] = half_value(sent[i]) / scale; });
  });
}

std::int64_t Float16Sum::bytes_sent() const {
  return all_to_all_bytes(group_, sent_.bytes()) +
         all_gather_bytes(group_, sent_.bytes() / group_.size()) +
         all_reduce_bytes(group_, largest_.bytes());
}

}  // namespace

std::unique_ptr<CompressedSum> make_float16_sum(Communicator& group, const GradientRange& range,
                                                CompressionMemory memory) {
  return std::make_unique<Float16Sum>(group, range, memory);
}

}  // namespace trireme
