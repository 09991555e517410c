#include "model/ops/average.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "model/ops/cpu/average.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class A>
TRIREME_KERNEL void average_range(A* average, const A* weight, std::int64_t count, double rest) {
  const Vec<A> towards = spread(A(rest));
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> old = load(some, average + i);
    // No MulAdd: not every instruction set fuses it.
    store(some, average + i, old + towards * (load(some, weight + i) - old));
  });
}

void update_average(Tensor average, Tensor weight, Tensor grad_scale, double decay) {
  with_float(average.dtype, [&]<class A>(A) {
    if constexpr (kIsAccumulator<A>) {
      if (std::isnan(*at<A>(grad_scale))) return;
      trireme::cpu::parallel_for(average.count(), 8192, [&](std::int64_t first, std::int64_t last) {
        average_range(at<A>(average, first), at<A>(weight, first), last - first, 1 - decay);
      });
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(update_average);

void update_average(Stream&, Tensor average, Tensor weight, Tensor grad_scale, double decay) {
  HWY_DYNAMIC_DISPATCH(update_average)(average, weight, grad_scale, decay);
}

}  // namespace trireme::ops::cpu
#endif
