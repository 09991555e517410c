#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "parallel/data/compression/compressed_sum.h"

namespace trireme {

// At most kElements numbers encoded as signs and one scale, in kWords words: the scale, then one
// bit per element, set if it is negative.
template <std::int64_t kElements>
struct SignBits {
  static constexpr std::int64_t kWords = 1 + kElements / 32;

  // Encodes x + residual into `words`; the residual becomes the encoding error.
  template <class T>
  static void encode(std::int32_t* words, T* residual, const T* x, std::int64_t count) {
    constexpr std::int64_t kLanes = 16;  // independent sums, so that the compiler vectorizes
    std::array<T, kLanes> sums{};
    for (std::int64_t i = 0; i < count; ++i) {
      residual[i] += x[i];
      sums[static_cast<std::size_t>(i % kLanes)] += std::fabs(residual[i]);
    }
    T total = 0;
    for (const T sum : sums) total += sum;
    const auto scale = static_cast<float>(total / static_cast<T>(count));
    words[0] = std::bit_cast<std::int32_t>(scale);
    for (std::int64_t word = 0; word * 32 < count; ++word) {
      std::uint32_t bits = 0;
      for (std::int64_t i = word * 32; i < std::min(word * 32 + 32, count); ++i) {
        const bool negative = residual[i] < 0;
        bits |= static_cast<std::uint32_t>(negative) << (i % 32);
        residual[i] = finite_or_zero(residual[i] - static_cast<T>(negative ? -scale : scale));
      }
      words[1 + word] = std::bit_cast<std::int32_t>(bits);
    }
  }

  // Decodes `words` and adds them to sums [count].
  template <class T>
  static void add(T* sums, const std::int32_t* words, std::int64_t count) {
    const auto scale = std::bit_cast<float>(words[0]);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool negative = std::bit_cast<std::uint32_t>(words[1 + i / 32]) >> (i % 32) & 1u;
      sums[i] += static_cast<T>(negative ? -scale : scale);
    }
  }
};

}  // namespace trireme
