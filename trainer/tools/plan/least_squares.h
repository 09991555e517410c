#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace trireme {

// One of many things measured: `seconds`, of which `known` are accounted for, the rest a sum of
// `parts` with the unknown factors.
template <std::size_t kParts>
struct Measured {
  double seconds = 0, known = 0;
  std::array<double, kParts> parts = {};
};

// The factors, none of them negative, with which all are off the least: by the sum of the squares
// of what they are off relative to what was measured. Goes through the factors in turn.
template <std::size_t kParts>
std::array<double, kParts> least_squares(const std::vector<Measured<kParts>>& all) {
  constexpr int kRounds = 5000;
  std::array<std::array<double, kParts>, kParts> square = {};
  std::array<double, kParts> right = {};
  for (const Measured<kParts>& one : all) {
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
