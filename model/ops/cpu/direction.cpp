#include "model/ops/direction.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "model/ops/cpu/direction.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

double number(const Tensor& tensor) {
  if (!tensor) return 1;
  return tensor.dtype == DType::kF64 ? *tensor.as<double>() : *tensor.as<float>();
}

template <class T>
TRIREME_KERNEL void adam_range(const UpdateRange<T>& op, const AdamDirection& how,
                               double correction, double inverse_root) {
  using A = Accumulator<T>;
  const Vec<A> beta1 = spread(A(how.beta1)), beta2 = spread(A(how.beta2));
  const Vec<A> rest1 = spread(A(1 - how.beta1)), rest2 = spread(A(1 - how.beta2));
  const Vec<A> of_m = spread(A(correction)), of_root = spread(A(inverse_root));
  const Vec<A> epsilon = spread(A(how.epsilon)), decay = spread(A(how.weight_decay));
  const Vec<A> scale = spread(static_cast<A>(op.grad_scale));
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    const Vec<A> m = MulAdd(beta1, load(some, op.m + i), rest1 * g);
    const Vec<A> v = MulAdd(beta2, load(some, op.v + i), rest2 * (g * g));
    store(some, op.m + i, m);
    store(some, op.v + i, v);
    const Vec<A> ratio = m * of_m / MulAdd(Sqrt(v), of_root, epsilon);
    const Vec<A> w = op.master ? load(some, op.master + i) : load(some, op.value + i);
    store(some, op.grad + i, MulAdd(decay, w, ratio));
  });
}

template <class T>
TRIREME_KERNEL void momentum_range(const UpdateRange<T>& op, double beta, bool nesterov) {
  using A = Accumulator<T>;
  const Vec<A> of_m = spread(A(beta)), rest = spread(A(1 - beta));
  const Vec<A> scale = spread(static_cast<A>(op.grad_scale));
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> g = load(some, op.grad + i) * scale;
    const Vec<A> m = MulAdd(of_m, load(some, op.m + i), rest * g);
    store(some, op.m + i, m);
    store(some, op.grad + i, nesterov ? MulAdd(of_m, m, rest * g) : m);
  });
}

// The direction is the range's gradient.
template <class T>
TRIREME_KERNEL void apply_range(const UpdateRange<T>& op, double step, double decay) {
  using A = Accumulator<T>;
  const Vec<A> of_w = spread(A(decay)), of_direction = spread(A(step));
  each_vector<A>(op.count, [&](auto some, std::int64_t i, int) {
    const Vec<A> old = op.master ? load(some, op.master + i) : load(some, op.value + i);
    const Vec<A> now = old - MulAdd(of_w, old, load(some, op.grad + i) * of_direction);
    if (op.master) store(some, op.master + i, now);
    store(some, op.value + i, now);
  });
}

template <class A>
TRIREME_KERNEL void axpby_range(A* y, const A* x, std::int64_t count, double alpha, double beta) {
  const Vec<A> of_y = spread(A(beta)), of_x = spread(A(alpha));
  if (beta == 0) {
    each_vector<A>(count, [&](auto some, std::int64_t i, int) {
      store(some, y + i, load(some, x + i) * of_x);
    });
    return;
  }
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    store(some, y + i, MulAdd(of_y, load(some, y + i), load(some, x + i) * of_x));
  });
}

void adam_direction(const UpdateTensors& tensors, Tensor grad_scale, const AdamDirection& how) {
  const double steps = static_cast<double>(how.step);
  const double correction = 1 / (1 - std::pow(how.beta1, steps));
  const double inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps));
  over_update(tensors, grad_scale, [&]<class T>(const UpdateRange<T>& range) {
    adam_range(range, how, correction, inverse_root);
  });
}

void momentum_direction(const UpdateTensors& tensors, Tensor grad_scale, double beta,
                        bool nesterov) {
  over_update(tensors, grad_scale,
              [&]<class T>(const UpdateRange<T>& range) { momentum_range(range, beta, nesterov); });
}

void apply_direction(const UpdateTensors& tensors, Tensor grad_scale, const DirectionStep& how) {
  const double step = how.rate * number(how.ratio);
  over_update(tensors, grad_scale,
              [&]<class T>(const UpdateRange<T>& range) { apply_range(range, step, how.decay); });
}

void axpby(Tensor y, Tensor x, const Axpby& how) {
  const double alpha = how.alpha * number(how.factor);
  with_float(y.dtype, [&]<class A>(A) {
    if constexpr (kIsAccumulator<A>) {
      trireme::cpu::parallel_for(y.count(), 8192, [&](std::int64_t first, std::int64_t last) {
        axpby_range(at<A>(y, first), at<A>(x, first), last - first, alpha, how.beta);
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

HWY_EXPORT(adam_direction);
HWY_EXPORT(momentum_direction);
HWY_EXPORT(apply_direction);
HWY_EXPORT(axpby);

void adam_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how) {
  HWY_DYNAMIC_DISPATCH(adam_direction)(tensors, grad_scale, how);
}
void momentum_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale, double beta,
                        bool nesterov) {
  HWY_DYNAMIC_DISPATCH(momentum_direction)(tensors, grad_scale, beta, nesterov);
}
void apply_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how) {
  HWY_DYNAMIC_DISPATCH(apply_direction)(tensors, grad_scale, how);
}
void axpby(Stream&, Tensor y, Tensor x, const Axpby& how) {
  HWY_DYNAMIC_DISPATCH(axpby)(y, x, how);
}

}  // namespace trireme::ops::cpu
#endif
