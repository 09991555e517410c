#include "model/ops/adamw_rounded.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/ops/cpu/adamw.h"
#include "model/ops/cpu/each_run.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/strided_copy.h"

namespace trireme::ops::cpu {
namespace {

using simd::Bf16Bits;
using simd::Isa;

constexpr std::int64_t kWindow = 2048;  // elements whose moments are in the first-level cache
using WideMoment = std::array<float, kWindow>;

void widen(WideMoment& to, const Bf16Bits* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::uint32_t{static_cast<std::uint16_t>(from[i])} << 16;
    std::memcpy(&to[static_cast<std::size_t>(i)], &bits, sizeof bits);
  }
}

}  // namespace

void adamw_rounded(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how,
                   const AdamWRounding& rounding) {
  const double scale = *grad_scale.as<float>();
  if (std::isnan(scale)) return;
  const simd::AdamWStep step = step_of(how);
  // Values that are rounded afterwards are not the update's business.
  const bool rounds = rounding.rounds_value;
  const Tensor value = rounds ? tensors.master : tensors.value;
  const Tensor master = rounds ? Tensor{} : tensors.separate_master();
  with_kernels(value.dtype, [&]<Isa isa, class T>() {
    if constexpr (std::is_same_v<simd::Sum<T>, float>) {
      const auto window = [&](std::int64_t i, std::int64_t index, std::int64_t count) {
        alignas(64) WideMoment m, v;
        widen(m, at<Bf16Bits>(tensors.state[0], i), count);
        widen(v, at<Bf16Bits>(tensors.state[1], i), count);
        simd::adamw<isa, T>({.value = at<T>(value, i),
                             .master = at<float>(master, i),
                             .grad = at<float>(tensors.grad, i),
                             .m = m.data(),
                             .v = v.data(),
                             .count = count,
                             .grad_scale = scale},
                            step);
        const auto round = [&](const Tensor& to, const float* from, std::uint64_t key) {
          simd::round_stochastically<isa>({.to = at<Bf16Bits>(to, i),
                                           .from = from,
                                           .count = count,
                                           .key = key,
                                           .update = rounding.update,
                                           .index = static_cast<std::uint64_t>(index)});
        };
        round(tensors.state[0], m.data(), rounding.m_key);
        round(tensors.state[1], v.data(), rounding.v_key);
        if (rounds) round(tensors.value, at<float>(tensors.master, i), rounding.value_key);
      };
      each_run(tensors.count(), rounding.where,
               [&](std::int64_t i, std::int64_t index, std::int64_t count) {
                 for (std::int64_t k = 0; k < count; k += kWindow)
                   window(i + k, index + k, std::min(kWindow, count - k));
               });
    }
  });
}

}  // namespace trireme::ops::cpu
