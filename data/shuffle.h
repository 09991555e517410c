#pragma once
#include <cstdint>

namespace trireme::data {

// A pseudorandom permutation of [0, n) by key, for any n up to 2^63, evaluated per index without
// tables. A Feistel network with Philox as the round function permutes the smallest power of two
// that is at least n; results outside [0, n) are permuted again (cycle walking), fewer than two
// rounds on average.
class Shuffle {
 public:
  Shuffle(std::uint64_t n, std::uint64_t key);
  std::uint64_t operator()(std::uint64_t index) const;
  std::uint64_t size() const { return n_; }

 private:
  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t n_, key_;
  int low_bits_, high_bits_;
};

}  // namespace trireme::data
