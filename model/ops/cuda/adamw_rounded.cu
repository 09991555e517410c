#include "model/ops/adamw_rounded.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/adamw.cuh"
#include "model/ops/cuda/philox.cuh"
#include "model/ops/cuda/strided.cuh"
#include "model/ops/cuda/weights.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

template <class T>
struct RoundedRange {
  Weights<T> weights;
  Bf16 *m = nullptr, *v = nullptr;
  const float *grad = nullptr, *grad_scale = nullptr;
  std::int64_t count = 0;
  AdamWFactors<float> factors;
  AdamWRounding rounding;
};

// n elements: one, or those of whole draws.
template <int kCount, class T>
__global__ __launch_bounds__(kFlatThreads) void adamw_rounded_range(const RoundedRange<T> op) {
  const float scale = *op.grad_scale;
  if (std::isnan(scale)) return;
  const AdamWRounding& how = op.rounding;
  over_flat<kCount>(op.count, [&]<int n>(Count<n>, std::int64_t first) {
    float grad[n], m[n], v[n], weight[n];
    load(grad, op.grad + first);
    load(m, op.m + first);
    load(v, op.v + first);
    op.weights.read(weight, first);
#pragma unroll
    for (int e = 0; e < n; ++e)
      weight[e] = op.factors.update(m[e], v[e], grad[e] * scale, weight[e]);
    const std::uint64_t index = static_cast<std::uint64_t>(index_of(how.where, first));
    store_rounded(op.m + first, m, how.m_key, how.update, index);
    store_rounded(op.v + first, v, how.v_key, how.update, index);
    if constexpr (std::is_same_v<T, Bf16>) {
      if (how.rounds_value) {
        if (op.weights.master) store(op.weights.master + first, weight);
        store_rounded(op.weights.value + first, weight, how.value_key, how.update, index);
        return;
      }
    }
    op.weights.write(weight, first);
  });
}

}  // namespace

void adamw_rounded(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                   const AdamW& how, const AdamWRounding& rounding) {
  if (tensors.count() == 0) return;
  const Tensor &m = tensors.state[0], &v = tensors.state[1];
  with_float(tensors.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<Accumulator<T>, float>) {
      const RoundedRange<T> op{.weights = Weights<T>::of(tensors),
                               .m = m.as<Bf16>(),
                               .v = v.as<Bf16>(),
                               .grad = tensors.grad.as<float>(),
                               .grad_scale = grad_scale.as<float>(),
                               .count = tensors.count(),
                               .factors = AdamWFactors<float>::of(how),
                               .rounding = rounding};
      const auto run = [&]<int n>(Count<n>) {
        launch(adamw_rounded_range<n, T>, flat_blocks<n>(op.count), kFlatThreads, 0, stream, op);
      };
      if (is_in_packs(rounding.where, op.count, kRoundedAtOnce) &&
          aligned(16, tensors.value, tensors.master, m, v, tensors.grad)) {
        run(Count<kRoundedAtOnce>{});
      } else {
        run(Count<1>{});
      }
    }
  });
}

}  // namespace trireme::ops::cuda
