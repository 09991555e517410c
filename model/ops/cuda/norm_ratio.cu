#include "model/ops/norm_ratio.h"

#include <cmath>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/dispatch.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

constexpr int kThreads = 1024;

// This thread's part of a sum.
__device__ double part_of(const double* squares, std::int64_t count) {
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += squares[i];
  return sum;
}

__device__ double norm(double part) {
  return std::sqrt(over_block<kThreads>(part, [](double a, double b) { return a + b; }));
}

template <class A>
__global__ __launch_bounds__(kThreads) void trust_ratio_kernel(
    A* ratio, const double* weight_squares, std::int64_t weight_count,
    const double* direction_squares, std::int64_t direction_count, const A* grad_scale,
    const TrustRatio how) {
  const double weight_part = part_of(weight_squares, weight_count);
  const double direction_part = part_of(direction_squares, direction_count);
  const double weight = norm(weight_part);
  const double scale = grad_scale ? std::fabs(static_cast<double>(*grad_scale)) : 1.0;
  const double direction = norm(direction_part) * scale;
  if (threadIdx.x != 0) return;
  const bool none = weight == 0 || direction == 0;
  *ratio = static_cast<A>(
      none ? 1.0 : how.coefficient * weight / (direction + how.weight_decay * weight));
}

template <class A>
__global__ __launch_bounds__(kThreads) void inverse_norm_kernel(A* inverse, const double* squares,
                                                                std::int64_t count,
                                                                double epsilon) {
  const double length = norm(part_of(squares, count));
  if (threadIdx.x == 0) *inverse = static_cast<A>(1 / (length + epsilon));
}

}  // namespace

void trust_ratio(Stream& stream, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how) {
  with_float(ratio.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(trust_ratio_kernel<A>, 1, kThreads, 0, stream, ratio.as<A>(),
             weight_squares.as<double>(), weight_squares.count(), direction_squares.as<double>(),
             direction_squares.count(), grad_scale ? grad_scale.as<A>() : nullptr, how);
    }
  });
}

void inverse_norm(Stream& stream, Tensor inverse, Tensor squares, double epsilon) {
  with_float(inverse.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(inverse_norm_kernel<A>, 1, kThreads, 0, stream, inverse.as<A>(), squares.as<double>(),
             squares.count(), epsilon);
    }
  });
}

}  // namespace trireme::ops::cuda
