#include "model/ops/strided_copy.h"

#include <cmath>
#include <cstring>

#include "model/ops/cpu/each_run.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/strided_copy.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;

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

void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how) {
  if (unless_nan && std::isnan(*unless_nan.as<float>())) return;
  simd::with_isa([&]<Isa isa>() {
    each_run(to.count(), how.where, [&](std::int64_t i, std::int64_t index, std::int64_t n) {
      simd::round_stochastically<isa>({.to = at<simd::Bf16Bits>(to, i),
                                       .from = from.as<float>() + i,
                                       .count = n,
                                       .key = how.key,
                                       .update = how.update,
                                       .index = static_cast<std::uint64_t>(index)});
    });
  });
}

}  // namespace trireme::ops::cpu
