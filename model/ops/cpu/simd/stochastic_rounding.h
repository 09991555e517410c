// Included by kernel sources after targets.h, once per target. Stochastic rounding to bfloat16.
#if defined(TRIREME_OPS_CPU_SIMD_STOCHASTIC_ROUNDING) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_STOCHASTIC_ROUNDING
#undef TRIREME_OPS_CPU_SIMD_STOCHASTIC_ROUNDING
#else
#define TRIREME_OPS_CPU_SIMD_STOCHASTIC_ROUNDING
#endif

#include "model/ops/cpu/simd/philox.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// Element i uses the upper half of word (index + i) % 4 of Philox (key, (index + i) / 4, update):
// see model/base/philox.h.
struct StochasticRun {
  Bf16* to = nullptr;
  const float* from = nullptr;
  std::int64_t count = 0;
  std::uint64_t key = 0, update = 0;
  std::uint64_t index = 0;  // of the first element in the whole tensor
};
TRIREME_KERNEL void round_run(const StochasticRun& op) {
  Words4 random;
  const std::uint64_t end = op.index + static_cast<std::uint64_t>(op.count);
  for (std::uint64_t quad = op.index / 4; quad * 4 < end; quad += kQuads) {
    random.draw(op.key, quad, op.update);
    const std::uint64_t begin = quad * 4 > op.index ? quad * 4 : op.index;
    const std::uint64_t stop = (quad + kQuads) * 4 < end ? (quad + kQuads) * 4 : end;
    for (std::uint64_t index = begin; index < stop; ++index) {
      const float value = op.from[index - op.index];
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      const std::uint64_t word = index - quad * 4;
      const std::uint32_t up = bits + (random.word[word & 3][word >> 2] >> 16);
      op.to[index - op.index].bits =
          static_cast<std::uint16_t>((value != value ? bits | 0x400000 : up) >> 16);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
