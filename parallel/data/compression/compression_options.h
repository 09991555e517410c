#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// How gradients are compressed in the sum over replicas.
struct CompressionOptions {
  enum class Method : std::uint8_t { kNone, kBfloat16, kFloat16, kTopK, kPowerSgd, kOneBit };
  Method method = Method::kNone;
  double fraction = 0.01;         // top-k: fraction of the elements sent, in (0, 1]
  std::int64_t rank = 4;          // PowerSGD: rank of the approximation
  std::int64_t warmup_steps = 0;  // uncompressed updates at the start

  // Error feedback.
  bool keeps_residuals() const {
    return method == Method::kTopK || method == Method::kPowerSgd || method == Method::kOneBit;
  }
  bool operator==(const CompressionOptions&) const = default;
};

// Config values, in the order of Method.
inline constexpr std::array<std::string_view, 6> kCompressionNames{"none", "bfloat16", "float16",
                                                                   "topk", "powersgd", "onebit"};

}  // namespace trireme
