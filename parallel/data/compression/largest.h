#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace trireme {

// The magnitude as an integer of the same order; NaN is greater than all others.
template <class T>
std::uint32_t magnitude_key(T value) {
  return std::bit_cast<std::uint32_t>(std::fabs(static_cast<float>(value)));
}

// Identifies the `wanted` elements of largest magnitude: those with a key above `key`, and the
// first `ties` with exactly that key.
struct Largest {
  std::uint32_t key = 0;
  std::int64_t ties = 0;
};

// Size of the histogram scratch of find_largest.
inline constexpr std::int64_t kLargestCounts = 16 * 2048;

// Radix select: three passes over x [count], 1 <= wanted <= count. The result does not depend on
// the number of threads.
template <class T>
Largest find_largest(const T* x, std::int64_t count, std::int64_t wanted,
                     std::span<std::int32_t, kLargestCounts> counts);

}  // namespace trireme
