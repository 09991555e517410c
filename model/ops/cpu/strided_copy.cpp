#include "model/ops/strided_copy.h"

#include <cmath>
#include <cstring>

#define HWY_TARGET_INCLUDE "model/ops/cpu/strided_copy.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/each_run.h"
#include "model/ops/cpu/simd/stochastic_rounding.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

void round_stochastically(Tensor to, Tensor from, const StochasticRounding& how) {
  each_run(to.count(), how.where, [&](std::int64_t i, std::int64_t index, std::int64_t n) {
    round_run({.to = at<Bf16>(to, i),
               .from = from.as<float>() + i,
               .count = n,
               .key = how.key,
               .update = how.update,
               .index = static_cast<std::uint64_t>(index)});
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(round_stochastically);

void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how) {
  if (unless_nan && std::isnan(*unless_nan.as<float>())) return;
  HWY_DYNAMIC_DISPATCH(round_stochastically)(to, from, how);
}

namespace {

void move(std::byte* to, const std::byte* from, std::int64_t count, std::size_t size) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * size);
}

}  // namespace

void scatter_strided(Stream&, Tensor whole, Tensor part, const Strided& where) {
  const std::size_t size = size_of(part.dtype);
  each_run(part.count(), where, [&](std::int64_t i, std::int64_t at, std::int64_t n) {
    move(whole.data + at * size, part.data + i * size, n, size);
  });
}

void gather_strided(Stream&, Tensor part, Tensor whole, const Strided& where) {
  const std::size_t size = size_of(part.dtype);
  each_run(part.count(), where, [&](std::int64_t i, std::int64_t at, std::int64_t n) {
    move(part.data + i * size, whole.data + at * size, n, size);
  });
}

}  // namespace trireme::ops::cpu
#endif
