#include "model/ops/cpu/simd/optimizer.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {

template <Isa isa, class T>
TRIREME_KERNEL void adamw(const UpdateRange<T>& op, const AdamWStep& how) {
  using A = Sum<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> inverse_root = spread(A(how.inverse_root)), epsilon = spread(A(how.epsilon));
  const Vec<A> step_size = spread(A(how.step_size)), decay = spread(A(how.decay));
  const A scale = static_cast<A>(op.grad_scale);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load_as<A>(some, op.grad + i) * scale;
    const Vec<A> m = fma(beta1, load_as<A>(some, op.m + i), rest1 * g);
    const Vec<A> v = fma(beta2, load_as<A>(some, op.v + i), rest2 * (g * g));
    Convert<A>::store(some, op.m + i, m);
    Convert<A>::store(some, op.v + i, v);
    const Vec<A> ratio = m / fma(sqrt(v), inverse_root, epsilon);
    const Vec<A> old = op.master ? load_as<A>(some, op.master + i) : load(some, op.value + i);
    // One rounding of the weight: the decrement is computed first.
    const Vec<A> now = old - fma(decay, old, step_size * ratio);
    if (op.master) Convert<A>::store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

#define TRIREME_INSTANCE(T) template void adamw<kIsa, T>(const UpdateRange<T>&, const AdamWStep&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
