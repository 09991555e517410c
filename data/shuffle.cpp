#include "data/shuffle.h"

#include <algorithm>
#include <bit>

#include "model/base/error.h"
#include "model/base/philox.h"

namespace trireme::data {
namespace {

constexpr int kRounds = 8;
constexpr int kFewestBits = 4;  // halves of two bits still mix

std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Shuffle::Shuffle(std::uint64_t n, std::uint64_t key) : n_(n), key_(key) {
  require(n > 0 && n <= std::uint64_t{1} << 63, "a permutation of ", n);
  const int bits = std::max(static_cast<int>(std::bit_width(n - 1)), kFewestBits);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Shuffle::permute(std::uint64_t value) const {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; ++round) {
    // The halves differ in width, so rounds alternate between them instead of swapping.
    std::uint64_t& from = round % 2 == 0 ? low : high;
    std::uint64_t& to = round % 2 == 0 ? high : low;
    const int bits = round % 2 == 0 ? high_bits_ : low_bits_;
    const auto random = philox(key_, from, static_cast<std::uint64_t>(round));
    to ^= (random[0] | std::uint64_t{random[1]} << 32) & mask(bits);
  }
  return high << low_bits_ | low;
}

std::uint64_t Shuffle::operator()(std::uint64_t index) const {
  require(index < n_, "index ", index, " of a permutation of ", n_);
  do {
    index = permute(index);
  } while (index >= n_);
  return index;
}

}  // namespace trireme::data
