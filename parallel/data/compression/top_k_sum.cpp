#include "parallel/data/compression/compressed_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/ops/elementwise.h"
#include "parallel/data/compression/largest.h"

namespace trireme {
namespace {

class TopKSum final : public CompressedSum {
 public:
  // `fraction` is in (0, 1]; at least one element is sent.
  TopKSum(Communicator& group, const GradientRange& range, double fraction,
          CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  void pick(const Tensor& values, const Tensor& places) const;
  void add_up() const;

  Communicator& group_;
  Tensor gradients_, residual_;
  std::int64_t kept_;
  Tensor values_;  // [ranks, kept] in the dtype of the gradients
  Tensor places_;  // [ranks, kept] I32
  Tensor counts_;
};

TopKSum::TopKSum(Communicator& group, const GradientRange& range, double fraction,
                 CompressionMemory memory)
    : group_(group), gradients_(range.gradients) {
  const std::int64_t count = gradients_.count(), ranks = group.size();
  require(count > 0 && count <= std::numeric_limits<std::int32_t>::max(), "top-k: a range of ",
          count, " gradients");
  kept_ = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count)));
  kept_ = std::clamp(kept_, std::int64_t{1}, count);
  residual_ = memory.state.take(gradients_.shape, gradients_.dtype);
  values_ = memory.messages.take({ranks, kept_}, gradients_.dtype);
  places_ = memory.messages.take({ranks, kept_}, DType::kI32);
  counts_ = memory.messages.take({kLargestCounts}, DType::kI32);
}

void TopKSum::reduce(Stream& stream, std::int64_t) {
  const Tensor values = values_.slice(group_.rank() * kept_, kept_);
  const Tensor places = places_.slice(group_.rank() * kept_, kept_);
  ops::add(stream, residual_, residual_, gradients_);
  if (stream.executes()) pick(values, places);
  group_.all_gather(stream, values_, values);
  group_.all_gather(stream, places_, places);
  ops::zero(stream, gradients_);
  if (stream.executes()) add_up();
}

// Moves the largest elements out of the residual.
void TopKSum::pick(const Tensor& values, const Tensor& places) const {
  with_elements(residual_, [&](auto* residual) {
    using T = std::remove_pointer_t<decltype(residual)>;
    Largest largest = find_largest(
        residual, residual_.count(), kept_,
        std::span<std::int32_t, kLargestCounts>(counts_.as<std::int32_t>(), kLargestCounts));
    std::int64_t at = 0;
    for (std::int64_t i = 0; at < kept_; ++i) {
      const std::uint32_t key = magnitude_key(residual[i]);
      if (key < largest.key || (key == largest.key && largest.ties-- <= 0)) continue;
      values.as<T>()[at] = residual[i];
      places.as<std::int32_t>()[at++] = static_cast<std::int32_t>(i);
      residual[i] = 0;
    }
    // If more elements than that were not finite.
    if (largest.key >= magnitude_key(std::numeric_limits<float>::infinity())) {
      std::transform(residual, residual + residual_.count(), residual, finite_or_zero<T>);
    }
  });
}

void TopKSum::add_up() const {
  with_elements(gradients_, [&](auto* gradients) {
    using T = std::remove_pointer_t<decltype(gradients)>;
    const T* const values = values_.as<T>();
    const std::int32_t* const places = places_.as<std::int32_t>();
    for (std::int64_t i = 0; i < values_.count(); ++i) {
      if (places[i] < 0 || places[i] >= gradients_.count()) {
        throw PeerError(
            say("top-k: a rank has sent index ", places[i], " of ", gradients_.count()));
      }
      gradients[places[i]] += values[i];
    }
  });
}

std::int64_t TopKSum::bytes_sent() const {
  return all_gather_bytes(group_, (values_.bytes() + places_.bytes()) / group_.size());
}

}  // namespace

std::unique_ptr<CompressedSum> make_top_k_sum(Communicator& group, const GradientRange& range,
                                              double fraction, CompressionMemory memory) {
  return std::make_unique<TopKSum>(group, range, fraction, memory);
}

}  // namespace trireme
