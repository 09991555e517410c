#include "model/ops/momentum.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/momentum.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// Calls body(g, m, w) with vectors over the range; it updates m and returns the decrement of w.
template <class T, class Body>
HWY_INLINE void over_vectors(const UpdateRange<T>& op, const Body& body) {
  using A = Accumulator<T>;
  const Vec<A> scale = spread(static_cast<A>(op.grad_scale));
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    Vec<A> m = load(some, op.m + i);
    const Vec<A> old = op.master ? load(some, op.master + i) : load(some, op.value + i);
    const Vec<A> now = old - body(g, m, old);
    store(some, op.m + i, m);
    if (op.master) store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

template <class T>
TRIREME_KERNEL void sgd_range(const UpdateRange<T>& op, const Momentum& how, double into) {
  using A = Accumulator<T>;
  const Vec<A> keep_back = spread(A(how.momentum)), decay = spread(A(how.weight_decay));
  const Vec<A> of_grad = spread(A(into)), rate = spread(A(how.learning_rate));
  const bool nesterov = how.nesterov;
  over_vectors(op, [&](Vec<A> grad, Vec<A>& m, Vec<A> w) {
    const Vec<A> g = MulAdd(decay, w, grad) * of_grad;
    m = MulAdd(keep_back, m, g);
    return (nesterov ? MulAdd(keep_back, m, g) : m) * rate;
  });
}

template <class T>
TRIREME_KERNEL void lion_range(const UpdateRange<T>& op, const Lion& how) {
  using A = Accumulator<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> rate = spread(A(how.learning_rate));
  const Vec<A> decay = spread(A(how.learning_rate * how.weight_decay));
  over_vectors(op, [&](Vec<A> g, Vec<A>& m, Vec<A> w) {
    const Vec<A> blend = MulAdd(beta1, m, rest1 * g);
    m = MulAdd(beta2, m, rest2 * g);
    // The sign of zero and of NaN is the value itself.
    const Vec<A> negative = IfThenElse(blend < zero<A>(), Neg(rate), blend);
    return MulAdd(decay, w, IfThenElse(blend > zero<A>(), rate, negative));
  });
}

void sgd_step(const UpdateTensors& tensors, Tensor grad_scale, const Momentum& how) {
  over_update(tensors, grad_scale, [&]<class T>(const UpdateRange<T>& range) {
    const double rate = how.rate ? *at<Accumulator<T>>(how.rate) : 1;
    sgd_range(range, how, how.into * rate);
  });
}

void lion(const UpdateTensors& tensors, Tensor grad_scale, const Lion& how) {
  over_update(tensors, grad_scale,
              [&]<class T>(const UpdateRange<T>& range) { lion_range(range, how); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(sgd_step);
HWY_EXPORT(lion);

void sgd_step(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Momentum& how) {
  HWY_DYNAMIC_DISPATCH(sgd_step)(tensors, grad_scale, how);
}
void lion(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how) {
  HWY_DYNAMIC_DISPATCH(lion)(tensors, grad_scale, how);
}

}  // namespace trireme::ops::cpu
#endif
