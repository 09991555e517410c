#include "model/ops/adamw_rounded.h"

#include <algorithm>
#include <array>
#include <cmath>

#define HWY_TARGET_INCLUDE "model/ops/cpu/adamw_rounded.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/each_run.h"
#include "model/ops/cpu/simd/adamw.h"
#include "model/ops/cpu/simd/stochastic_rounding.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kWindow = 2048;  // elements whose moments are in the first-level cache

TRIREME_KERNEL void widen(float* to, const Bf16* from, std::int64_t count) {
  each_vector<float>(
      count, [&](auto some, std::int64_t i, int) { store(some, to + i, load(some, from + i)); });
}

// The value type and the tensors of an update.
template <class T>
struct Window {
  const UpdateTensors& tensors;
  Tensor value, master;  // absent master: `value` is the master
  double grad_scale;
  const AdamWStep& step;
  const AdamWRounding& rounding;

  // Elements [i, i + count), which are at `index` of the whole tensor.
  void update(std::int64_t i, std::int64_t index, std::int64_t count) const {
    alignas(64) std::array<float, kWindow> m, v;
    widen(m.data(), at<Bf16>(tensors.state[0], i), count);
    widen(v.data(), at<Bf16>(tensors.state[1], i), count);
    adamw_range<T>({.value = at<T>(value, i),
                    .master = at<float>(master, i),
                    .grad = at<float>(tensors.grad, i),
                    .m = m.data(),
                    .v = v.data(),
                    .count = count,
                    .grad_scale = grad_scale},
                   step);
    const auto round = [&](const Tensor& to, const float* from, std::uint64_t key) {
      round_run({.to = at<Bf16>(to, i),
                 .from = from,
                 .count = count,
                 .key = key,
                 .update = rounding.update,
                 .index = static_cast<std::uint64_t>(index)});
    };
    round(tensors.state[0], m.data(), rounding.m_key);
    round(tensors.state[1], v.data(), rounding.v_key);
    if (rounding.rounds_value) {
      round(tensors.value, at<float>(tensors.master, i), rounding.value_key);
    }
  }
};

void adamw_rounded(const UpdateTensors& tensors, double grad_scale, const AdamW& how,
                   const AdamWRounding& rounding) {
  const AdamWStep step = step_of(how);
  // Values that are rounded afterwards are not the update's business.
  const bool rounds = rounding.rounds_value;
  const Tensor value = rounds ? tensors.master : tensors.value;
  const Tensor master = rounds ? Tensor{} : tensors.separate_master();
  with_float(value.dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<Accumulator<T>, float>) {
      const Window<T> window{tensors, value, master, grad_scale, step, rounding};
      each_run(tensors.count(), rounding.where,
               [&](std::int64_t i, std::int64_t index, std::int64_t count) {
                 for (std::int64_t k = 0; k < count; k += kWindow) {
                   window.update(i + k, index + k, std::min(kWindow, count - k));
                 }
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

HWY_EXPORT(adamw_rounded);

void adamw_rounded(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how,
                   const AdamWRounding& rounding) {
  const double scale = *grad_scale.as<float>();
  if (!std::isnan(scale)) HWY_DYNAMIC_DISPATCH(adamw_rounded)(tensors, scale, how, rounding);
}

}  // namespace trireme::ops::cpu
#endif
