#include "model/ops/cpu/simd/strided_copy.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

constexpr int kQuads = 64;

// Philox4x32-10 for kQuads consecutive counters, in loops that the compiler vectorizes.
struct Words4 {
  std::uint32_t word[4][kQuads];

  TRIREME_INLINE void draw(std::uint64_t key, std::uint64_t quad, std::uint64_t update) {
    for (int q = 0; q < kQuads; ++q) {
      const std::uint64_t counter = quad + static_cast<std::uint64_t>(q);
      word[0][q] = static_cast<std::uint32_t>(counter);
      word[1][q] = static_cast<std::uint32_t>(counter >> 32);
      word[2][q] = static_cast<std::uint32_t>(update);
      word[3][q] = static_cast<std::uint32_t>(update >> 32);
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

template <Isa isa>
TRIREME_KERNEL void round_stochastically(const StochasticRun& op) {
  Words4 random;
  const std::uint64_t end = op.index + static_cast<std::uint64_t>(op.count);
  for (std::uint64_t quad = op.index / 4; quad * 4 < end; quad += kQuads) {
    random.draw(op.key, quad, op.update);
    const std::uint64_t begin = quad * 4 > op.index ? quad * 4 : op.index;
    const std::uint64_t stop = (quad + kQuads) * 4 < end ? (quad + kQuads) * 4 : end;
    for (std::uint64_t index = begin; index < stop; ++index) {
      const float value = op.from[index - op.index];
      std::uint32_t bits = 0;
      __builtin_memcpy(&bits, &value, 4);
      const std::uint64_t word = index - quad * 4;
      const std::uint32_t up = bits + (random.word[word & 3][word >> 2] >> 16);
      op.to[index - op.index] =
          static_cast<Bf16Bits>((value != value ? bits | 0x400000 : up) >> 16);
    }
  }
}

template void round_stochastically<kIsa>(const StochasticRun&);

}  // namespace trireme::simd
