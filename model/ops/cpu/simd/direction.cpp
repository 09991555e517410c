#include "model/ops/cpu/simd/direction.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {

template <Isa isa, class A>
TRIREME_KERNEL void adam_direction(const AdamDirectionRange<A>& op) {
  const Vec<A> beta1 = spread(A(op.beta1)), beta2 = spread(A(op.beta2));
  const Vec<A> rest1 = spread(A(1 - op.beta1)), rest2 = spread(A(1 - op.beta2));
  const Vec<A> inverse_root = spread(A(op.inverse_root)), epsilon = spread(A(op.epsilon));
  const Vec<A> decay = spread(A(op.decay));
  const A scale = static_cast<A>(op.grad_scale), correction = static_cast<A>(op.correction);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    const Vec<A> m = fma(beta1, load(some, op.m + i), rest1 * g);
    const Vec<A> v = fma(beta2, load(some, op.v + i), rest2 * (g * g));
    store(some, op.m + i, m);
    store(some, op.v + i, v);
    const Vec<A> ratio = m * correction / fma(sqrt(v), inverse_root, epsilon);
    store(some, op.grad + i, fma(decay, load(some, op.weight + i), ratio));
  });
}

template <Isa isa, class A>
TRIREME_KERNEL void momentum_direction(const MomentumDirectionRange<A>& op) {
  const Vec<A> beta = spread(A(op.beta)), rest = spread(A(1 - op.beta));
  const A scale = static_cast<A>(op.grad_scale);
  const bool nesterov = op.nesterov;
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    const Vec<A> m = fma(beta, load(some, op.momentum + i), rest * g);
    store(some, op.momentum + i, m);
    store(some, op.grad + i, nesterov ? fma(beta, m, rest * g) : m);
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void apply_direction(const DirectionRange<T>& op) {
  using A = Sum<T>;
  const Vec<A> decay = spread(A(op.decay));
  const A step = static_cast<A>(op.step);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> old = op.master ? load_as<A>(some, op.master + i) : load(some, op.value + i);
    const Vec<A> now = old - fma(decay, old, load_as<A>(some, op.direction + i) * step);
    if (op.master) Convert<A>::store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

template <Isa isa, class A>
TRIREME_KERNEL void axpby(A* y, const A* x, std::int64_t count, double alpha, double beta) {
  const Vec<A> of_y = spread(A(beta));
  const A of_x = static_cast<A>(alpha);
  if (beta == 0) {
    each_vector<A>(count, [&](auto some, std::int64_t i, int) {
      store(some, y + i, load(some, x + i) * of_x);
    });
    return;
  }
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    store(some, y + i, fma(of_y, load(some, y + i), load(some, x + i) * of_x));
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): A is a type
#define TRIREME_INSTANCE(A)                                                    \
  template void adam_direction<kIsa, A>(const AdamDirectionRange<A>&);         \
  template void momentum_direction<kIsa, A>(const MomentumDirectionRange<A>&); \
  template void axpby<kIsa, A>(A*, const A*, std::int64_t, double, double);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_INSTANCE(float)
TRIREME_INSTANCE(double)
#define TRIREME_APPLY_DIRECTION(T) template void apply_direction<kIsa, T>(const DirectionRange<T>&);
TRIREME_EACH_FLOAT(TRIREME_APPLY_DIRECTION)

}  // namespace trireme::simd
