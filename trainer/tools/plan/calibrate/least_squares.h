#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace trireme {

// One measurement: `seconds` = `known` + the sum of `parts` times the unknown factors.
template <std::size_t kParts>
struct Measurement {
  double seconds = 0, known = 0;
  std::array<double, kParts> parts = {};
};

// Non-negative factors that minimize the sum of squared relative errors, by coordinate descent.
template <std::size_t kParts>
std::array<double, kParts> least_squares(const std::vector<Measurement<kParts>>& all) {
  constexpr int kRounds = 5000;
  std::array<std::array<double, kParts>, kParts> square = {};
  std::array<double, kParts> right = {};
  for (const Measurement<kParts>& one : all) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const double part = one.parts[i] / one.seconds;
      right[i] += part * (one.seconds - one.known) / one.seconds;
      for (std::size_t j = 0; j < kParts; ++j) square[i][j] += part * one.parts[j] / one.seconds;
    }
  }
  std::array<double, kParts> factors = {};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kParts; ++i) {
      if (square[i][i] <= 0) continue;
      double rest = right[i];
      for (std::size_t j = 0; j < kParts; ++j) {
        if (j != i) rest -= square[i][j] * factors[j];
      }
      factors[i] = std::max(0.0, rest / square[i][i]);
    }
  }
  return factors;
}

}  // namespace trireme
