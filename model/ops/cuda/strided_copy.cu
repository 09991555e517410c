#include "model/ops/strided_copy.h"

#include "model/ops/cuda/flat.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

__device__ std::int64_t index_of(const Strided& where, std::int64_t i) {
  const std::int64_t at = where.first + i;
  return at / where.run * where.stride + where.start + at % where.run;
}

template <class Word>
__global__ void place_kernel(Word* whole, const Word* part, std::int64_t count,
                             const Strided where) {
  over_flat<1>(count,
               [&]<int n>(Count<n>, std::int64_t i) { whole[index_of(where, i)] = part[i]; });
}

template <class Word>
__global__ void pick_kernel(Word* part, const Word* whole, std::int64_t count,
                            const Strided where) {
  over_flat<1>(count,
               [&]<int n>(Count<n>, std::int64_t i) { part[i] = whole[index_of(where, i)]; });
}

// Word `which` of Philox4x32-10; see model/base/philox.h.
__device__ std::uint32_t philox_word(std::uint64_t key, std::uint64_t low, std::uint64_t high,
                                     unsigned which) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                        static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return which == 0 ? c[0] : which == 1 ? c[1] : which == 2 ? c[2] : c[3];
}

__global__ void round_kernel(Bf16* to, const float* from, const float* unless_nan,
                             std::int64_t count, const StochasticRounding how) {
  if (unless_nan && *unless_nan != *unless_nan) return;
  over_flat<1>(count, [&]<int n>(Count<n>, std::int64_t i) {
    const auto index = static_cast<std::uint64_t>(index_of(how.where, i));
    const float value = from[i];
    const unsigned bits = __float_as_uint(value);
    const std::uint32_t up = bits + (philox_word(how.key, index / 4, how.update, index % 4) >> 16);
    to[i].bits = static_cast<std::uint16_t>((value != value ? bits | 0x400000u : up) >> 16);
  });
}

// Calls body with a zero of an unsigned type of the elements' size.
template <class Body>
void with_words(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

}  // namespace

void scatter_strided(Stream& stream, Tensor whole, Tensor part, const Strided& where) {
  with_words(part.dtype, [&](auto zero) {
    using Word = decltype(zero);
    launch(place_kernel<Word>, flat_blocks<1>(part.count()), kFlatThreads, 0, stream,
           reinterpret_cast<Word*>(whole.data), reinterpret_cast<const Word*>(part.data),
           part.count(), where);
  });
}

void gather_strided(Stream& stream, Tensor part, Tensor whole, const Strided& where) {
  with_words(part.dtype, [&](auto zero) {
    using Word = decltype(zero);
    launch(pick_kernel<Word>, flat_blocks<1>(part.count()), kFlatThreads, 0, stream,
           reinterpret_cast<Word*>(part.data), reinterpret_cast<const Word*>(whole.data),
           part.count(), where);
  });
}

void round_stochastically(Stream& stream, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how) {
  launch(round_kernel, flat_blocks<1>(to.count()), kFlatThreads, 0, stream, to.as<Bf16>(),
         from.as<float>(), at<float>(unless_nan), to.count(), how);
}

}  // namespace trireme::ops::cuda
