#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace trireme {

// The magnitude as an integer of the same order; what is not a number is above all.
template <class T>
std::uint32_t magnitude_key(T value) {
  return std::bit_cast<std::uint32_t>(std::fabs(static_cast<float>(value)));
}

// Which elements are the `wanted` largest in magnitude: those whose key is above `key`, and
// of those with that very key the first `ties`.
struct Largest {
  std::uint32_t key = 0;
  std::int64_t ties = 0;
};

// Room for the counts of find_largest.
inline constexpr std::int64_t kLargestCounts = 16 * 2048;

// Three passes over x [count], 1 <= wanted <= count. The same whatever the number of threads.
template <class T>
Largest find_largest(const T* x, std::int64_t count, std::int64_t wanted,
                     std::span<std::int32_t, kLargestCounts> counts);

}  // namespace trireme
