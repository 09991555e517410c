#include "model/ops/dropout.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "model/ops/cpu/dropout.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/philox.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kGrain = 8192;             // elements
constexpr int kWords = 4, kColumns = 2 * kWords;  // of a draw
constexpr std::int64_t kAtOnce = kColumns * kQuads;

// The factors of kAtOnce columns from `column` on.
template <class A>
TRIREME_KERNEL void draw_factors(A (&factors)[kAtOnce], const Dropout& how, std::int64_t column,
                                 std::uint32_t word) {
  Words4 random;
  random.draw(how.key, static_cast<std::uint64_t>(column / kColumns), word);
  const std::uint32_t dropped = how.dropped();
  const A kept = static_cast<A>(how.scale());
  for (int w = 0; w < kWords; ++w) {
    for (int q = 0; q < kQuads; ++q) {
      const std::uint32_t bits = random.word[w][q];
      factors[kColumns * q + 2 * w] = (bits & 0xffff) < dropped ? A(0) : kept;
      factors[kColumns * q + 2 * w + 1] = (bits >> 16) < dropped ? A(0) : kept;
    }
  }
}

template <class T>
TRIREME_KERNEL void drop_row(T* y, const T* x, std::int64_t width, const Dropout& how,
                             std::uint32_t word) {
  using A = Accumulator<T>;
  alignas(64) A factors[kAtOnce];
  for (std::int64_t first = 0; first < width; first += kAtOnce) {
    draw_factors(factors, how, first, word);
    each_vector<A>(std::min(kAtOnce, width - first), [&](auto some, std::int64_t i, int) {
      const Vec<A> factor = load(some, factors + i), value = load(some, x + first + i);
      // Infinities are dropped too.
      store(some, y + first + i, IfThenElse(factor == zero<A>(), zero<A>(), value * factor));
    });
  }
}

void dropout(Tensor y, Tensor x, const Dropout& how) {
  const std::int64_t width = x.width();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / width);
  with_float(y.dtype, [&]<class T>(T) {
    parallel_for(x.rows(), grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        drop_row(at<T>(y, row * width), at<T>(x, row * width), width, how,
                 static_cast<std::uint32_t>(*at<std::int32_t>(how.words, row)));
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

HWY_EXPORT(dropout);

void dropout(Stream&, Tensor y, Tensor x, const Dropout& how) {
  HWY_DYNAMIC_DISPATCH(dropout)(y, x, how);
}

}  // namespace trireme::ops::cpu
#endif
