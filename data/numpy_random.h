#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace trireme::data {

// The part of numpy.random.RandomState(seed) that shuffle needs: MT19937, which the C++ library
// seeds identically, and bounded integers by masked rejection.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : twister_(seed) {}

  // Uniform in [0, most].
  std::uint32_t below_or_equal(std::uint32_t most) {
    const std::uint32_t mask = most == 0 ? 0 : UINT32_MAX >> std::countl_zero(most);
    std::uint32_t value = 0;
    do {
      value = static_cast<std::uint32_t>(twister_()) & mask;
    } while (value > most);
    return value;
  }

  // At most 2^32 values.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[below_or_equal(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::mt19937 twister_;
};

}  // namespace trireme::data
