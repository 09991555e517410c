#include "model/ops/cpu/simd/direction.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {

template <Isa isa, class T>
TRIREME_KERNEL void adam_direction(const UpdateRange<T>& op, const AdamDirectionStep& how) {
  using A = Sum<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> inverse_root = spread(A(how.inverse_root)), epsilon = spread(A(how.epsilon));
  const Vec<A> decay = spread(A(how.decay));
  const A scale = static_cast<A>(op.grad_scale), correction = static_cast<A>(how.correction);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load_as<A>(some, op.grad + i) * scale;
    const Vec<A> m = fma(beta1, load_as<A>(some, op.m + i), rest1 * g);
    const Vec<A> v = fma(beta2, load_as<A>(some, op.v + i), rest2 * (g * g));
    Convert<A>::store(some, op.m + i, m);
    Convert<A>::store(some, op.v + i, v);
    const Vec<A> ratio = m * correction / fma(sqrt(v), inverse_root, epsilon);
    const Vec<A> w = op.master ? load_as<A>(some, op.master + i) : load(some, op.value + i);
    Convert<A>::store(some, op.grad + i, fma(decay, w, ratio));
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void momentum_direction(const UpdateRange<T>& op, double beta, bool nesterov) {
  using A = Sum<T>;
  const Vec<A> of_m = spread(A(beta)), rest = spread(A(1 - beta));
  const A scale = static_cast<A>(op.grad_scale);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load_as<A>(some, op.grad + i) * scale;
    const Vec<A> m = fma(of_m, load_as<A>(some, op.m + i), rest * g);
    Convert<A>::store(some, op.m + i, m);
    Convert<A>::store(some, op.grad + i, nesterov ? fma(of_m, m, rest * g) : m);
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void apply_direction(const UpdateRange<T>& op, double step, double decay) {
  using A = Sum<T>;
  const Vec<A> of_w = spread(A(decay));
  const A of_direction = static_cast<A>(step);
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> old = op.master ? load_as<A>(some, op.master + i) : load(some, op.value + i);
    const Vec<A> now = old - fma(of_w, old, load_as<A>(some, op.grad + i) * of_direction);
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

#define TRIREME_INSTANCE(T)                                                               \
  template void adam_direction<kIsa, T>(const UpdateRange<T>&, const AdamDirectionStep&); \
  template void momentum_direction<kIsa, T>(const UpdateRange<T>&, double, bool);         \
  template void apply_direction<kIsa, T>(const UpdateRange<T>&, double, double);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)
template void axpby<kIsa, float>(float*, const float*, std::int64_t, double, double);
template void axpby<kIsa, double>(double*, const double*, std::int64_t, double, double);

}  // namespace trireme::simd
