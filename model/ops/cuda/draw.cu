#include "model/ops/draw.h"

#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/philox.cuh"
#include "model/ops/cuda/strided.cuh"

// The arithmetic of ops/cpu/draw.cpp. Intrinsics keep the compiler from contracting it to FMAs,
// which would round otherwise.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

__device__ double natural_log(double x) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(x));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = __longlong_as_double(
      static_cast<long long>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull));
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = __ddiv_rn(__dadd_rn(m, -1.0), __dadd_rn(m, 1.0));
  const double s2 = __dmul_rn(s, s);
  double series = 0;
#pragma unroll
  for (int k = 23; k >= 1; k -= 2) series = __dadd_rn(__dmul_rn(series, s2), 1.0 / k);
  return __dadd_rn(__dmul_rn(exponent, 0.69314718055994530942),
                   __dmul_rn(__dmul_rn(2.0, s), series));
}

struct Direction {
  double cos, sin;
};

// Of `turns` full turns, in [0, 1).
__device__ Direction direction_of(double turns) {
  const double quarters = __dmul_rn(turns, 4.0);
  const int quadrant = static_cast<int>(__dadd_rn(quarters, 0.5));
  const double x =
      __dmul_rn(__dadd_rn(quarters, -static_cast<double>(quadrant)), 1.57079632679489661923);
  const double x2 = __dmul_rn(x, x);
  double c = 0, s = 0;
#pragma unroll
  for (int k = 20; k >= 2; k -= 2) {
    c = __ddiv_rn(__dmul_rn(__dadd_rn(c, 1.0), -x2), static_cast<double>(k * (k - 1)));
  }
#pragma unroll
  for (int k = 21; k >= 3; k -= 2) {
    s = __ddiv_rn(__dmul_rn(__dadd_rn(s, 1.0), -x2), static_cast<double>(k * (k - 1)));
  }
  c = __dadd_rn(c, 1.0);
  s = __dmul_rn(__dadd_rn(s, 1.0), x);
  switch (quadrant & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

template <class T>
__global__ void normal_kernel(T* out, std::int64_t count, const NormalDraw how) {
  over_flat<1>(count, [&]<int n>(Count<n>, std::int64_t i) {
    constexpr double kUnit = 1.0 / 4294967296.0;
    const auto index = static_cast<std::uint64_t>(index_of(how.where, i));
    const PhiloxWords words = philox_words(how.key, index / 4, 0);
    const unsigned pair = index % 4 / 2 * 2;
    const double log = natural_log(__dmul_rn(__dadd_rn(words[pair], 0.5), kUnit));
    const double radius = __dsqrt_rn(__dmul_rn(-2.0, log));
    const Direction direction = direction_of(__dmul_rn(words[pair + 1], kUnit));
    const double normal = __dmul_rn(radius, index % 2 == 0 ? direction.cos : direction.sin);
    out[i] = rounded<T>(static_cast<float>(__dmul_rn(how.scale, normal)));
  });
}

}  // namespace

void draw_normal(Stream& stream, Tensor out, const NormalDraw& how) {
  with_float(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(normal_kernel<T>, flat_blocks<1>(out.count()), kFlatThreads, 0, stream, at<T>(out),
           out.count(), how);
  });
}

}  // namespace trireme::ops::cuda
