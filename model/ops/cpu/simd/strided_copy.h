#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// Element i uses the upper half of word (index + i) % 4 of Philox (key, (index + i) / 4, update):
// see model/base/philox.h.
struct StochasticRun {
  Bf16Bits* to = nullptr;
  const float* from = nullptr;
  std::int64_t count = 0;
  std::uint64_t key = 0, update = 0;
  std::uint64_t index = 0;  // of the first element in the whole tensor
};
template <Isa isa>
void round_stochastically(const StochasticRun& op);

}  // namespace trireme::simd
