#pragma once
#include <cstdint>
#include <vector>

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest
  std::int64_t top_k = 0;  // only among the k likeliest; 0: all
  std::uint64_t seed = 0;
};

// Draws token number `position` of an answer from its logits. A pure function: the
// random number is keyed by the seed and the position.
std::int32_t sample(const std::vector<float>& logits, const Sampling& how, std::int64_t position);

}  // namespace trireme
