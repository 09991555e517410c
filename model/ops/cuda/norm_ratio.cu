#include "model/ops/norm_ratio.h"

#include <cmath>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/dispatch.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

// One warp loads, so that its first thread can add in order without memory latency.
__device__ double norm(const double* squares, std::int64_t count) {
  __shared__ double fetched[32];
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += 32) {
    const std::int64_t mine = first + threadIdx.x;
    __syncthreads();
    fetched[threadIdx.x] = mine < count ? squares[mine] : 0;
    __syncthreads();
    for (int i = 0; threadIdx.x == 0 && i < 32; ++i) sum += fetched[i];
  }
  return std::sqrt(sum);
}

template <class A>
__global__ __launch_bounds__(32) void trust_ratio_kernel(A* ratio, const double* weight_squares,
                                                         std::int64_t weight_count,
                                                         const double* direction_squares,
                                                         std::int64_t direction_count,
                                                         const A* grad_scale,
                                                         const TrustRatio how) {
  const double weight = norm(weight_squares, weight_count);
  const double scale = grad_scale ? std::fabs(static_cast<double>(*grad_scale)) : 1.0;
  const double direction = norm(direction_squares, direction_count) * scale;
  if (threadIdx.x != 0) return;
  const bool none = weight == 0 || direction == 0;
  *ratio = static_cast<A>(
      none ? 1.0 : how.coefficient * weight / (direction + how.weight_decay * weight));
}

template <class A>
__global__ __launch_bounds__(32) void inverse_norm_kernel(A* inverse, const double* squares,
                                                          std::int64_t count, double epsilon) {
  const double length = norm(squares, count);
  if (threadIdx.x == 0) *inverse = static_cast<A>(1 / (length + epsilon));
}

}  // namespace

void trust_ratio(Stream& stream, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how) {
  with_float(ratio.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(trust_ratio_kernel<A>, 1, 32, 0, stream, ratio.as<A>(), weight_squares.as<double>(),
             weight_squares.count(), direction_squares.as<double>(), direction_squares.count(),
             grad_scale ? grad_scale.as<A>() : nullptr, how);
    }
  });
}

void inverse_norm(Stream& stream, Tensor inverse, Tensor squares, double epsilon) {
  with_float(inverse.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(inverse_norm_kernel<A>, 1, 32, 0, stream, inverse.as<A>(), squares.as<double>(),
             squares.count(), epsilon);
    }
  });
}

}  // namespace trireme::ops::cuda
