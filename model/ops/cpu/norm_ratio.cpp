#include "model/ops/norm_ratio.h"

#include <cmath>

namespace trireme::ops::cpu {
namespace {

double norm(const Tensor& squares) {
  double sum = 0;
  for (std::int64_t i = 0; i < squares.count(); ++i) sum += squares.as<double>()[i];
  return std::sqrt(sum);
}

double scalar(const Tensor& tensor) {
  if (!tensor) return 1;
  return tensor.dtype == DType::kF64 ? *tensor.as<double>() : *tensor.as<float>();
}

void set(const Tensor& tensor, double value) {
  if (tensor.dtype == DType::kF64) {
    *tensor.as<double>() = value;
  } else {
    *tensor.as<float>() = static_cast<float>(value);
  }
}

}  // namespace

void trust_ratio(Stream&, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how) {
  const double weight = norm(weight_squares);
  const double direction = norm(direction_squares) * std::fabs(scalar(grad_scale));
  const bool none = weight == 0 || direction == 0;
  set(ratio, none ? 1 : how.coefficient * weight / (direction + how.weight_decay * weight));
}

void inverse_norm(Stream&, Tensor inverse, Tensor squares, double epsilon) {
  set(inverse, 1 / (norm(squares) + epsilon));
}

}  // namespace trireme::ops::cpu
