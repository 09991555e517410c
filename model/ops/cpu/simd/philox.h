// Included by kernel sources after targets.h, once per target. Random words.
#if defined(TRIREME_OPS_CPU_SIMD_PHILOX) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_PHILOX
#undef TRIREME_OPS_CPU_SIMD_PHILOX
#else
#define TRIREME_OPS_CPU_SIMD_PHILOX
#endif

#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int kQuads = 64;

// Philox4x32-10 (model/base/philox.h) for kQuads counters, in loops that the compiler vectorizes.
struct Words4 {
  std::uint32_t word[4][kQuads];

  // Of consecutive counters.
  HWY_INLINE void draw(std::uint64_t key, std::uint64_t quad, std::uint64_t high = 0) {
    const auto low = [=](int q) { return quad + static_cast<std::uint64_t>(q); };
    draw_each(key, low, [=](int) { return high; });
  }
  // Of the counters low(q) and high(q).
  template <class Low, class High>
  HWY_INLINE void draw_each(std::uint64_t key, const Low& low, const High& high) {
    for (int q = 0; q < kQuads; ++q) {
      const std::uint64_t lower = low(q), upper = high(q);
      word[0][q] = static_cast<std::uint32_t>(lower);
      word[1][q] = static_cast<std::uint32_t>(lower >> 32);
      word[2][q] = static_cast<std::uint32_t>(upper);
      word[3][q] = static_cast<std::uint32_t>(upper >> 32);
    }
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int q = 0; q < kQuads; ++q) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * word[0][q];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * word[2][q];
        word[0][q] = static_cast<std::uint32_t>(p1 >> 32) ^ word[1][q] ^ k0;
        word[1][q] = static_cast<std::uint32_t>(p1);
        word[2][q] = static_cast<std::uint32_t>(p0 >> 32) ^ word[3][q] ^ k1;
        word[3][q] = static_cast<std::uint32_t>(p0);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
