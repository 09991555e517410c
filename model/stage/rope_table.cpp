#include "model/stage/rope_table.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace trireme {
namespace {

double scaled(double frequency, const RopeScaling& s) {
  if (s.factor == 1) return frequency;
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / s.high_freq_factor) return frequency;
  if (wavelength > original / s.low_freq_factor) return frequency / s.factor;
  const double smooth =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

template <class T>
void fill(Tensor table, const std::vector<double>& frequencies) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  for (std::int64_t position = 0; position < table.rows(); ++position) {
    T* row = table.as<T>() + position * table.width();
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      row[i] = static_cast<T>(std::cos(angle));
      row[half + i] = static_cast<T>(std::sin(angle));
    }
  }
}

}  // namespace

void fill_rope_table(Tensor table, const ModelConfig& config) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    frequencies.push_back(scaled(std::pow(config.rope_theta, -exponent), config.rope_scaling));
  }
  if (table.dtype == DType::kF64) {
    fill<double>(table, frequencies);
  } else {
    fill<float>(table, frequencies);
  }
}

}  // namespace trireme
