#include "model/ops/part_attention.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/part_attention.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include <limits>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

// One token's heads.
template <class T>
TRIREME_KERNEL void merge_heads(Accumulator<T>* sum, Accumulator<T>* sum_lse, const T* out,
                                const Accumulator<T>* lse, const Heads& heads) {
  using A = Accumulator<T>;
  for (std::int64_t head = 0; head < heads.heads; ++head, sum += heads.width, out += heads.width) {
    // A part of which the row saw no key changes nothing.
    if (lse[head] == -std::numeric_limits<A>::infinity()) continue;
    const A above = lse[head] - sum_lse[head];
    // exp of the smaller of the two over the larger cannot overflow.
    const A ratio = __builtin_exp(above < 0 ? above : -above);
    const A larger = 1 / (1 + ratio), smaller = ratio / (1 + ratio);
    const Vec<A> before = spread(above < 0 ? larger : smaller);
    const Vec<A> added = spread(above < 0 ? smaller : larger);
    sum_lse[head] =
        (above < 0 ? sum_lse[head] : lse[head]) + static_cast<A>(__builtin_log1p(ratio));
    each_vector<A>(heads.width, [&](auto some, std::int64_t i, int) {
      store(some, sum + i, MulAdd(load(some, sum + i), before, load(some, out + i) * added));
    });
  }
}

void merge_attention(Tensor sum, Tensor sum_lse, Tensor out, Tensor lse, const Heads& heads) {
  with_float(out.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t tokens = out.count() / heads.query();
    parallel_for(tokens, row_grain(heads.query()), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t token = first; token < last; ++token) {
        const std::int64_t row = token * heads.query(), statistic = token * heads.heads;
        merge_heads(at<A>(sum, row), at<A>(sum_lse, statistic), at<T>(out, row),
                    at<A>(lse, statistic), heads);
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

HWY_EXPORT(merge_attention);

void merge_attention(Stream&, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse,
                     const Heads& heads) {
  HWY_DYNAMIC_DISPATCH(merge_attention)(sum, sum_lse, out, lse, heads);
}

}  // namespace trireme::ops::cpu
#endif
