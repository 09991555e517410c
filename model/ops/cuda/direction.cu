#include "model/ops/direction.h"

#include <cmath>

#include "model/ops/cuda/weights.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

template <class A>
struct AdamRange {
  const A* weight = nullptr;
  A *m = nullptr, *v = nullptr, *grad = nullptr;
  const A* grad_scale = nullptr;
  std::int64_t count = 0;
  A beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0, epsilon = 0;
  A correction = 1;    // 1 / (1 - beta1^step)
  A inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  A decay = 0;
};

template <int kCount, class A>
__global__ void adam_direction_kernel(const AdamRange<A> op) {
  const A scale = *op.grad_scale;
  if (scale != scale) return;
  over_flat<kCount>(op.count, [&]<int n>(Count<n>, std::int64_t first) {
    A w[n], m[n], v[n], grad[n];
    load(w, op.weight + first);
    load(m, op.m + first);
    load(v, op.v + first);
    load(grad, op.grad + first);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const A g = grad[k] * scale;
      m[k] = std::fma(op.beta1, m[k], op.rest1 * g);
      v[k] = std::fma(op.beta2, v[k], op.rest2 * (g * g));
      const A ratio = m[k] * op.correction / std::fma(std::sqrt(v[k]), op.inverse_root, op.epsilon);
      grad[k] = std::fma(op.decay, w[k], ratio);
    }
    store(op.m + first, m);
    store(op.v + first, v);
    store(op.grad + first, grad);
  });
}

template <int kCount, class A>
__global__ void momentum_direction_kernel(A* momentum, A* gradient, const A* grad_scale,
                                          std::int64_t count, A beta, A rest, bool nesterov) {
  const A scale = *grad_scale;
  if (scale != scale) return;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    A m[n], grad[n];
    load(m, momentum + first);
    load(grad, gradient + first);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const A g = grad[k] * scale;
      m[k] = std::fma(beta, m[k], rest * g);
      grad[k] = nesterov ? std::fma(beta, m[k], rest * g) : m[k];
    }
    store(momentum + first, m);
    store(gradient + first, grad);
  });
}

template <int kCount, class T>
__global__ void apply_direction_kernel(const Weights<T> weights, const Sum<T>* direction,
                                       const Sum<T>* ratio, const Sum<T>* grad_scale,
                                       std::int64_t count, Sum<T> rate, Sum<T> decay) {
  if (*grad_scale != *grad_scale) return;
  const Sum<T> step = ratio ? rate * *ratio : rate;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> w[n], towards[n];
    weights.read(w, first);
    load(towards, direction + first);
#pragma unroll
    for (int k = 0; k < n; ++k) w[k] -= std::fma(decay, w[k], towards[k] * step);
    weights.write(w, first);
  });
}

template <int kCount, class A>
__global__ void axpby_kernel(A* y, const A* x, const A* factor, std::int64_t count, A alpha,
                             A beta) {
  const A of_x = factor ? alpha * *factor : alpha;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    A from[n], to[n] = {};
    load(from, x + first);
    if (beta != 0) load(to, y + first);
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = std::fma(beta, to[k], from[k] * of_x);
    store(y + first, to);
  });
}

// Calls body with a zero of the accumulator type `dtype`.
template <class Body>
void with_accumulator(DType dtype, const Body& body) {
  if (dtype == DType::kF64) {
    body(double{});
  } else {
    body(float{});
  }
}

}  // namespace

void adam_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how) {
  const std::int64_t count = tensors.count();
  const double steps = static_cast<double>(how.step);
  const Tensor &m = tensors.state[0], &v = tensors.state[1];
  with_accumulator(tensors.grad.dtype, [&](auto zero) {
    using A = decltype(zero);
    const AdamRange<A> op{
        .weight = at<A>(tensors.master),
        .m = at<A>(m),
        .v = at<A>(v),
        .grad = at<A>(tensors.grad),
        .grad_scale = at<A>(grad_scale),
        .count = count,
        .beta1 = static_cast<A>(how.beta1),
        .beta2 = static_cast<A>(how.beta2),
        .rest1 = static_cast<A>(1 - how.beta1),
        .rest2 = static_cast<A>(1 - how.beta2),
        .epsilon = static_cast<A>(how.epsilon),
        .correction = static_cast<A>(1 / (1 - std::pow(how.beta1, steps))),
        .inverse_root = static_cast<A>(1 / std::sqrt(1 - std::pow(how.beta2, steps))),
        .decay = static_cast<A>(how.weight_decay)};
    const auto run = [&]<int n>(Count<n>) {
      launch(adam_direction_kernel<n, A>, flat_blocks<n>(count), kFlatThreads, 0, stream, op);
    };
    with_fours<A>(run, tensors.master, m, v, tensors.grad);
  });
}

void momentum_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                        double beta, bool nesterov) {
  const std::int64_t count = tensors.count();
  const Tensor& momentum = tensors.state[0];
  with_accumulator(tensors.grad.dtype, [&](auto zero) {
    using A = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(momentum_direction_kernel<n, A>, flat_blocks<n>(count), kFlatThreads, 0, stream,
             at<A>(momentum), at<A>(tensors.grad), at<A>(grad_scale), count, static_cast<A>(beta),
             static_cast<A>(1 - beta), nesterov);
    };
    with_fours<A>(run, momentum, tensors.grad);
  });
}

void apply_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how) {
  const std::int64_t count = tensors.count();
  with_float(tensors.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Sum<T>;
    const auto run = [&]<int n>(Count<n>) {
      launch(apply_direction_kernel<n, T>, flat_blocks<n>(count), kFlatThreads, 0, stream,
             Weights<T>::of(tensors), at<A>(tensors.grad), at<A>(how.ratio), at<A>(grad_scale),
             count, static_cast<A>(how.rate), static_cast<A>(how.decay));
    };
    with_fours<A>(run, tensors.value, tensors.master, tensors.grad);
  });
}

void axpby(Stream& stream, Tensor y, Tensor x, const Axpby& how) {
  const std::int64_t count = y.count();
  with_accumulator(y.dtype, [&](auto zero) {
    using A = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(axpby_kernel<n, A>, flat_blocks<n>(count), kFlatThreads, 0, stream, at<A>(y), at<A>(x),
             at<A>(how.factor), count, static_cast<A>(how.alpha), static_cast<A>(how.beta));
    };
    with_fours<A>(run, y, x);
  });
}

}  // namespace trireme::ops::cuda
