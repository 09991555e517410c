#pragma once
// Included only by kernel sources: the random words of stochastic rounding.
#include <cstdint>

#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {

struct PhiloxWords {
  std::uint32_t x, y, z, w;

  __device__ std::uint32_t operator[](unsigned which) const {
    return which == 0 ? x : which == 1 ? y : which == 2 ? z : w;
  }
};

// Philox4x32-10; see model/base/philox.h.
__device__ inline PhiloxWords philox_words(std::uint64_t key, std::uint64_t low,
                                           std::uint64_t high) {
  PhiloxWords c{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.x;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c.z;
    c.x = static_cast<std::uint32_t>(p1 >> 32) ^ c.y ^ k0;
    c.y = static_cast<std::uint32_t>(p1);
    c.z = static_cast<std::uint32_t>(p0 >> 32) ^ c.w ^ k1;
    c.w = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// `word` are the random bits.
__device__ inline Bf16 rounded_stochastically(float value, std::uint32_t word) {
  const unsigned bits = __float_as_uint(value);
  Bf16 result;
  result.bits =
      static_cast<std::uint16_t>((value != value ? bits | 0x400000u : bits + (word >> 16)) >> 16);
  return result;
}

constexpr int kDraw = 4;           // elements whose random bits are one draw of Philox
constexpr int kRoundedAtOnce = 8;  // elements per thread, so that draws overlap

// One element, or those of whole draws, of which the first has `index` in the whole tensor.
template <int n>
__device__ void store_rounded(Bf16* to, const float (&from)[n], std::uint64_t key,
                              std::uint64_t update, std::uint64_t index) {
  Vector<Bf16, n> pack;
  if constexpr (n == 1) {
    const PhiloxWords words = philox_words(key, index / kDraw, update);
    pack.x[0] = rounded_stochastically(from[0], words[index % kDraw]);
  } else {
#pragma unroll
    for (int k = 0; k < n; k += kDraw) {
      const PhiloxWords words = philox_words(key, (index + k) / kDraw, update);
#pragma unroll
      for (unsigned e = 0; e < kDraw; ++e)
        pack.x[k + e] = rounded_stochastically(from[k + e], words[e]);
    }
  }
  *reinterpret_cast<Vector<Bf16, n>*>(to) = pack;
}

}  // namespace trireme::ops::cuda
