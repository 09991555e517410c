#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// How the gradients' sum over replicas is sent.
struct CompressionOptions {
  enum class Method : std::uint8_t { kNone, kBfloat16, kFloat16, kTopK, kPowerSgd, kOneBit };
  Method method = Method::kNone;
  double fraction = 0.01;         // of the elements that top-k sends, in (0, 1]
  int rank = 4;                   // of PowerSGD's approximations
  std::int64_t warmup_steps = 0;  // updates before the first that is compressed
};

// In the order of Method; what a config calls them.
inline constexpr std::array<std::string_view, 6> kCompressionNames{"none", "bfloat16", "float16",
                                                                   "topk", "powersgd", "onebit"};

}  // namespace trireme
