// Included by kernel sources after targets.h, once per target. AdamW's update of a range of
// elements.
#if defined(TRIREME_OPS_CPU_SIMD_ADAMW) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_ADAMW
#undef TRIREME_OPS_CPU_SIMD_ADAMW
#else
#define TRIREME_OPS_CPU_SIMD_ADAMW
#endif

#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/vec.h"
#include "model/ops/optimizer.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

struct AdamWStep {
  double beta1, beta2, epsilon;
  double step_size, inverse_root;  // with bias correction
  double decay;
};
inline AdamWStep step_of(const AdamW& how) {
  const double steps = static_cast<double>(how.step);
  return {.beta1 = how.beta1,
          .beta2 = how.beta2,
          .epsilon = how.epsilon,
          .step_size = how.learning_rate / (1 - std::pow(how.beta1, steps)),
          .inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps)),
          .decay = how.learning_rate * how.weight_decay};
}

template <class T>
TRIREME_KERNEL void adamw_range(const UpdateRange<T>& op, const AdamWStep& how) {
  using A = Accumulator<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> of_root = spread(A(how.inverse_root)), epsilon = spread(A(how.epsilon));
  const Vec<A> step_size = spread(A(how.step_size));
  const Vec<A> decay = spread(A(how.decay));
  const Vec<A> scale = spread(static_cast<A>(op.grad_scale));
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    const Vec<A> m = MulAdd(beta1, load(some, op.m + i), rest1 * g);
    const Vec<A> v = MulAdd(beta2, load(some, op.v + i), rest2 * (g * g));
    store(some, op.m + i, m);
    store(some, op.v + i, v);
    const Vec<A> ratio = m / MulAdd(Sqrt(v), of_root, epsilon);
    const Vec<A> old = op.master ? load(some, op.master + i) : load(some, op.value + i);
    // One rounding of the weight: the decrement is computed first.
    const Vec<A> now = old - MulAdd(decay, old, step_size * ratio);
    if (op.master) store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
