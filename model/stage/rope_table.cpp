#include "model/stage/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "model/base/error.h"

namespace trireme {
namespace {

using Type = RopeScaling::Type;

// Rotary frequencies of a model for sequences of up to `length` tokens.
class Frequencies {
 public:
  Frequencies(const ModelConfig& config, const RopeConfig& rope, std::int64_t length)
      : s_(rope.scaling),
        theta_(rope.theta),
        dim_(static_cast<double>(config.rotary_dim())),
        most_(static_cast<double>(config.max_position_embeddings)),
        original_(s_.original_max_position_embeddings > 0
                      ? static_cast<double>(s_.original_max_position_embeddings)
                      : most_),
        length_(static_cast<double>(length)) {
    if (s_.type == Type::kDynamic) {
      const double stretched = s_.factor * std::max(length_, most_) / most_ - (s_.factor - 1);
      theta_ *= std::pow(stretched, dim_ / (dim_ - 2));
    }
  }

  double operator()(std::int64_t pair) const {
    const double plain = std::pow(theta_, -2 * static_cast<double>(pair) / dim_);
    switch (s_.type) {
      case Type::kDefault:
      case Type::kDynamic:
        return plain;
      case Type::kLinear:
        return plain / s_.factor;
      case Type::kYarn:
        return yarn(plain, static_cast<double>(pair));
      case Type::kLongRope:
        return plain / (length_ > original_ ? s_.long_factor : s_.short_factor).at(pair);
      case Type::kLlama3:
        return llama3(plain);
    }
    return plain;
  }

  // Of cosines and sines, which multiplies attention scores by its square.
  double attention_factor() const {
    if (s_.type != Type::kYarn && s_.type != Type::kLongRope) return 1;
    if (s_.attention_factor > 0) return s_.attention_factor;
    if (s_.type == Type::kLongRope) {
      const double factor = s_.original_max_position_embeddings > 0 ? most_ / original_ : s_.factor;
      return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original_));
    }
    const bool has_scales = s_.mscale > 0 && s_.mscale_all_dim > 0;
    return has_scales ? magnitude(s_.mscale) / magnitude(s_.mscale_all_dim) : magnitude(1);
  }

 private:
  double magnitude(double scale) const {
    return s_.factor <= 1 ? 1 : 0.1 * scale * std::log(s_.factor) + 1;
  }

  // The pair that turns so many times over the original length.
  double pair_of(double turns) const {
    return dim_ * std::log(original_ / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta_));
  }

  // Fast pairs keep their frequency, slow ones are divided by the factor, with a ramp in between.
  double yarn(double plain, double pair) const {
    double low = pair_of(s_.beta_fast), high = pair_of(s_.beta_slow);
    if (s_.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, dim_ - 1);
    if (low == high) high += 0.001;
    const double slow = std::clamp((pair - low) / (high - low), 0.0, 1.0);
    return plain / s_.factor * slow + plain * (1 - slow);
  }

  double llama3(double plain) const {
    const double wavelength = 2 * std::numbers::pi / plain;
    if (wavelength < original_ / s_.high_freq_factor) return plain;
    if (wavelength > original_ / s_.low_freq_factor) return plain / s_.factor;
    const double smooth =
        (original_ / wavelength - s_.low_freq_factor) / (s_.high_freq_factor - s_.low_freq_factor);
    return (1 - smooth) * plain / s_.factor + smooth * plain;
  }

  const RopeScaling& s_;
  double theta_;
  const double dim_, most_, original_, length_;
};

template <class T>
void fill(Tensor table, const Frequencies& frequencies) {
  const std::int64_t half = table.width() / 2;
  std::vector<double> values;
  for (std::int64_t i = 0; i < half; ++i) values.push_back(frequencies(i));
  const double factor = frequencies.attention_factor();
  for (std::int64_t position = 0; position < table.rows(); ++position) {
    T* row = table.as<T>() + position * table.width();
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * values[i];
      row[i] = static_cast<T>(factor * std::cos(angle));
      row[half + i] = static_cast<T>(factor * std::sin(angle));
    }
  }
}

}  // namespace

void fill_rope_table(Tensor table, const ModelConfig& config, const RopeConfig& rope) {
  require(table.width() == config.rotary_dim(), "a rotary table of width ", table.width());
  const Frequencies frequencies(config, rope, table.rows());
  if (table.dtype == DType::kF64) {
    fill<double>(table, frequencies);
  } else {
    fill<float>(table, frequencies);
  }
}

}  // namespace trireme
