#include "model/ops/momentum.h"

#include <cmath>
#include <type_traits>

#include "model/ops/cuda/weights.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

template <class T>
struct Range {
  Weights<T> weights;
  Sum<T>* momentum = nullptr;
  const Sum<T>*grad = nullptr, *grad_scale = nullptr, *rate = nullptr;
  std::int64_t count = 0;
};

// Returns the decrement of w; updates m.
template <class A>
struct SgdStep {
  A learning_rate, momentum, decay, into;
  bool nesterov;
  __device__ A operator()(A grad, A& m, A w, A rate) const {
    const A g = std::fma(decay, w, grad) * (into * rate);
    m = std::fma(momentum, m, g);
    return (nesterov ? std::fma(momentum, m, g) : m) * learning_rate;
  }
};

template <class A>
struct LionStep {
  A learning_rate, beta1, beta2, rest1, rest2, decay;
  __device__ A operator()(A g, A& m, A w, A) const {
    const A blend = std::fma(beta1, m, rest1 * g);
    m = std::fma(beta2, m, rest2 * g);
    // The sign of zero and of NaN is the value itself.
    const A step = blend > 0 ? learning_rate : blend < 0 ? -learning_rate : blend;
    return std::fma(decay, w, step);
  }
};

template <int kCount, class T, class Rule>
__global__ void momentum_kernel(const Range<T> op, const Rule rule) {
  const Sum<T> scale = *op.grad_scale;
  if (scale != scale) return;
  const Sum<T> rate = op.rate ? *op.rate : Sum<T>(1);
  over_flat<kCount>(op.count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> grad[n], m[n], w[n];
    load(grad, op.grad + first);
    load(m, op.momentum + first);
    op.weights.read(w, first);
#pragma unroll
    for (int k = 0; k < n; ++k) w[k] -= rule(grad[k] * scale, m[k], w[k], rate);
    store(op.momentum + first, m);
    op.weights.write(w, first);
  });
}

// Calls rule_of.operator()<A>() for the selected optimizer.
template <class RuleOf>
void over_range(Stream& stream, const UpdateTensors& tensors, const Tensor& grad_scale,
                const Tensor& rate, const RuleOf& rule_of) {
  const std::int64_t count = tensors.count();
  with_float(tensors.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Sum<T>;
    const auto rule = rule_of.template operator()<A>();
    using Rule = std::remove_const_t<decltype(rule)>;
    const Tensor& momentum = tensors.state[0];
    const Range<T> op{.weights = Weights<T>::of(tensors),
                      .momentum = at<A>(momentum),
                      .grad = at<A>(tensors.grad),
                      .grad_scale = at<A>(grad_scale),
                      .rate = at<A>(rate),
                      .count = count};
    const auto run = [&]<int n>(Count<n>) {
      launch(momentum_kernel<n, T, Rule>, flat_blocks<n>(count), kFlatThreads, 0, stream, op, rule);
    };
    with_fours<A>(run, tensors.value, tensors.master, momentum, tensors.grad);
  });
}

}  // namespace

void sgd_step(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
              const Momentum& how) {
  over_range(stream, tensors, grad_scale, how.rate, [&]<class A>() {
    return SgdStep<A>{static_cast<A>(how.learning_rate), static_cast<A>(how.momentum),
                      static_cast<A>(how.weight_decay), static_cast<A>(how.into), how.nesterov};
  });
}

void lion(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how) {
  over_range(stream, tensors, grad_scale, /*rate=*/{}, [&]<class A>() {
    return LionStep<A>{
        static_cast<A>(how.learning_rate), static_cast<A>(how.beta1),
        static_cast<A>(how.beta2),         static_cast<A>(1 - how.beta1),
        static_cast<A>(1 - how.beta2),     static_cast<A>(how.learning_rate * how.weight_decay)};
  });
}

}  // namespace trireme::ops::cuda
