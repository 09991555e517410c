#include "model/ops/cpu/simd/momentum.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

// Calls body(g, m, w) with vectors over the range; it updates m and returns the decrement of w.
template <class T, class Body>
TRIREME_INLINE void over_range(const UpdateRange<T>& op, const Body& body) {
  using A = Sum<T>;
  const A scale = static_cast<A>(op.grad_scale);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load_as<A>(some, op.grad + i) * scale;
    Vec<A> m = load_as<A>(some, op.m + i);
    const Vec<A> old = op.master ? load_as<A>(some, op.master + i) : load(some, op.value + i);
    const Vec<A> now = old - body(g, m, old);
    Convert<A>::store(some, op.m + i, m);
    if (op.master) Convert<A>::store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void sgd_step(const UpdateRange<T>& op, const SgdStep& how) {
  using A = Sum<T>;
  const Vec<A> keep_back = spread(A(how.momentum)), decay = spread(A(how.decay));
  const A into = static_cast<A>(how.into), rate = static_cast<A>(how.learning_rate);
  const bool nesterov = how.nesterov;
  over_range(op, [&](Vec<A> grad, Vec<A>& m, Vec<A> w) {
    const Vec<A> g = fma(decay, w, grad) * into;
    m = fma(keep_back, m, g);
    return (nesterov ? fma(keep_back, m, g) : m) * rate;
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void lion(const UpdateRange<T>& op, const LionStep& how) {
  using A = Sum<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> rate = spread(A(how.learning_rate)), decay = spread(A(how.decay));
  over_range(op, [&](Vec<A> g, Vec<A>& m, Vec<A> w) {
    const Vec<A> blend = fma(beta1, m, rest1 * g), zero{};
    m = fma(beta2, m, rest2 * g);
    // The sign of zero and of NaN is the value itself.
    const Vec<A> step = blend > zero ? rate : blend < zero ? -rate : blend;
    return fma(decay, w, step);
  });
}

#define TRIREME_INSTANCE(T)                                               \
  template void sgd_step<kIsa, T>(const UpdateRange<T>&, const SgdStep&); \
  template void lion<kIsa, T>(const UpdateRange<T>&, const LionStep&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
