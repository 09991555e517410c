#include "model/ops/draw.h"

#include <bit>
#include <cmath>

#define HWY_TARGET_INCLUDE "model/ops/cpu/draw.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/each_run.h"
#include "model/ops/cpu/simd/philox.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr double kUnit = 1.0 / 4294967296.0;

// Natural logarithm of a positive normal number: m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2
// atanh((m - 1) / (m + 1)) by its series.
HWY_INLINE double natural_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const double half = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  const bool upper = half > 1.41421356237309504880;
  const double m = upper ? half * 0.5 : half;
  const double exponent = static_cast<int>(bits >> 52) - 1023 + (upper ? 1 : 0);
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return exponent * 0.69314718055994530942 + 2 * s * series;
}

// Cosine and sine of `turns` full turns, in [0, 1).
HWY_INLINE void direction_of(double turns, double& cosine, double& sine) {
  // The nearest quadrant, so that the remainder is within 1/8 turn.
  const int quadrant = static_cast<int>(turns * 4 + 0.5);
  const double x = (turns * 4 - quadrant) * 1.57079632679489661923;
  const double x2 = x * x;
  double c = 0, s = 0;
  for (int k = 20; k >= 2; k -= 2) c = (c + 1) * -x2 / (k * (k - 1));
  for (int k = 21; k >= 3; k -= 2) s = (s + 1) * -x2 / (k * (k - 1));
  c += 1;
  s = (s + 1) * x;
  const double across = (quadrant & 1) ? s : c, along = (quadrant & 1) ? c : s;
  cosine = ((quadrant + 1) & 2) ? -across : across;
  sine = (quadrant & 2) ? -along : along;
}

// The numbers of kQuads counters from `quad` on.
TRIREME_KERNEL void normal_numbers(float (&out)[4 * kQuads], const NormalDraw& how,
                                   std::uint64_t quad) {
  Words4 random;
  random.draw(how.key, quad);
  double radius[kQuads], cosine[kQuads], sine[kQuads];
  for (int pair = 0; pair < 4; pair += 2) {
    for (int q = 0; q < kQuads; ++q) {
      radius[q] = std::sqrt(-2 * natural_log((random.word[pair][q] + 0.5) * kUnit));
    }
    for (int q = 0; q < kQuads; ++q) {
      direction_of(random.word[pair + 1][q] * kUnit, cosine[q], sine[q]);
    }
    for (int q = 0; q < kQuads; ++q) {
      out[4 * q + pair] = static_cast<float>(how.scale * (radius[q] * cosine[q]));
      out[4 * q + pair + 1] = static_cast<float>(how.scale * (radius[q] * sine[q]));
    }
  }
}

void draw_normal(Tensor out, const NormalDraw& how) {
  with_float(out.dtype, [&]<class T>(T) {
    each_run(out.count(), how.where, [&](std::int64_t i, std::int64_t index, std::int64_t n) {
      alignas(64) float drawn[4 * kQuads];
      const auto first = static_cast<std::uint64_t>(index),
                 end = static_cast<std::uint64_t>(index + n);
      for (std::uint64_t quad = first / 4; quad * 4 < end; quad += kQuads) {
        normal_numbers(drawn, how, quad);
        const std::uint64_t begin = std::max(first, quad * 4);
        const std::uint64_t stop = std::min(end, (quad + kQuads) * 4);
        for (std::uint64_t at_whole = begin; at_whole < stop; ++at_whole) {
          at<T>(out, i)[at_whole - first] = static_cast<T>(drawn[at_whole - quad * 4]);
        }
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(draw_normal);

void draw_normal(Stream&, Tensor out, const NormalDraw& how) {
  HWY_DYNAMIC_DISPATCH(draw_normal)(out, how);
}

}  // namespace trireme::ops::cpu
#endif
