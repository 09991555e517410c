#include "model/ops/adamw_rounded.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/adamw.cuh"
#include "model/ops/cuda/philox.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // elements per thread, of one draw of Philox where they are aligned

template <class T>
struct RoundedRange {
  T* value = nullptr;
  float* master = nullptr;  // null: `value` is the master
  Bf16 *m = nullptr, *v = nullptr;
  const float *grad = nullptr, *grad_scale = nullptr;
  std::int64_t count = 0;
  AdamWFactors<float> factors;
  AdamWRounding rounding;
  bool fits = false;  // all tensors are aligned for vectors
};

// Indices in the whole tensor of a thread's elements.
struct Indices {
  std::uint64_t of[kAtOnce];
  bool are_one_draw;

  __device__ Indices(const Strided& where, std::int64_t first) {
    std::int64_t column = where.first + first, start = where.start;
    if (column >= where.run) {
      start += column / where.run * where.stride;
      column %= where.run;
    }
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      of[e] = static_cast<std::uint64_t>(start + column);
      if (++column == where.run) {
        column = 0;
        start += where.stride;
      }
    }
    are_one_draw = of[0] % kAtOnce == 0 && of[kAtOnce - 1] == of[0] + kAtOnce - 1;
  }
};

__device__ Vector<Bf16, kAtOnce> rounded_at(const Indices& at, const float (&from)[kAtOnce],
                                            std::uint64_t key, std::uint64_t update) {
  Vector<Bf16, kAtOnce> to;
  PhiloxWords words = philox_words(key, at.of[0] / kAtOnce, update);
#pragma unroll
  for (int e = 0; e < kAtOnce; ++e) {
    if (e > 0 && !at.are_one_draw && at.of[e] / kAtOnce != at.of[e - 1] / kAtOnce)
      words = philox_words(key, at.of[e] / kAtOnce, update);
    to.x[e] = rounded_stochastically(from[e], words[at.of[e] % kAtOnce]);
  }
  return to;
}

template <class T>
__global__ __launch_bounds__(kThreads) void adamw_rounded_range(const RoundedRange<T> op) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kAtOnce;
  const std::int64_t left = op.count - i;
  if (left <= 0) return;
  const float scale = *op.grad_scale;
  if (std::isnan(scale)) return;
  const auto grad = load_vector<float, kAtOnce>(op.grad + i, left, op.fits);
  const auto before_m = load_vector<Bf16, kAtOnce>(op.m + i, left, op.fits);
  const auto before_v = load_vector<Bf16, kAtOnce>(op.v + i, left, op.fits);
  Vector<float, kAtOnce> master{};
  Vector<T, kAtOnce> value{};
  if (op.master) {
    master = load_vector<float, kAtOnce>(op.master + i, left, op.fits);
  } else {
    value = load_vector<T, kAtOnce>(op.value + i, left, op.fits);
  }
  float m[kAtOnce], v[kAtOnce];
#pragma unroll
  for (int e = 0; e < kAtOnce; ++e) {
    m[e] = widened(before_m.x[e]);
    v[e] = widened(before_v.x[e]);
    const float old = op.master ? master.x[e] : widened(value.x[e]);
    master.x[e] = op.factors.update(m[e], v[e], grad.x[e] * scale, old);
    value.x[e] = rounded<T>(master.x[e]);
  }
  const AdamWRounding& how = op.rounding;
  const Indices at(how.where, i);
  store_vector(op.m + i, rounded_at(at, m, how.m_key, how.update), left, op.fits);
  store_vector(op.v + i, rounded_at(at, v, how.v_key, how.update), left, op.fits);
  if (op.master) store_vector(op.master + i, master, left, op.fits);
  if constexpr (std::is_same_v<T, Bf16>) {
    if (how.rounds_value) value = rounded_at(at, master.x, how.value_key, how.update);
  }
  store_vector(op.value + i, value, left, op.fits);
}

}  // namespace

void adamw_rounded(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                   const AdamW& how, const AdamWRounding& rounding) {
  if (tensors.count() == 0) return;
  const Tensor master = tensors.separate_master();
  const Tensor &m = tensors.state[0], &v = tensors.state[1];
  with_float(tensors.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<Accumulator<T>, float>) {
      const RoundedRange<T> op{.value = tensors.value.as<T>(),
                               .master = at<float>(master),
                               .m = m.as<Bf16>(),
                               .v = v.as<Bf16>(),
                               .grad = tensors.grad.as<float>(),
                               .grad_scale = grad_scale.as<float>(),
                               .count = tensors.count(),
                               .factors = AdamWFactors<float>::of(how),
                               .rounding = rounding,
                               .fits = aligned(16, tensors.value, master, m, v, tensors.grad)};
      launch(adamw_rounded_range<T>, extent(parts(op.count, kThreads * kAtOnce)), kThreads, 0,
             stream, op);
    }
  });
}

}  // namespace trireme::ops::cuda
