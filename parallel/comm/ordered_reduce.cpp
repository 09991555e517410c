#include "parallel/comm/ordered_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "model/base/error.h"
#include "model/device/cpu/threads.h"

namespace trireme::comm {
namespace {

template <class T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<Bf16> {
  using Type = float;
};
template <>
struct AccumulatorOf<F16> {
  using Type = float;
};
template <>
struct AccumulatorOf<std::int32_t> {
  using Type = std::int64_t;
};

template <class T>
T larger(T a, T b) {
  return a < b || b != b ? b : a;
}

template <Reduce kReduce, class Accumulator>
Accumulator joined(Accumulator a, Accumulator b) {
  return kReduce == Reduce::kSum ? a + b : larger(a, b);
}

// Pending partial sums of the tree: enough for 2^18 ranks.
constexpr std::size_t kMostApart = 18;
constexpr std::int64_t kBlock = 512;

// into[i] = the reduction of element at + i of `ranks` contributions, for i < n <= kBlock; `apart`
// is scratch for partial sums.
template <Reduce kReduce, class T, class Accumulator>
void reduce_block(std::span<const std::byte* const> ranks, std::int64_t at, std::int64_t n,
                  Accumulator* into, Accumulator* apart) {
  const T* const first = reinterpret_cast<const T*>(ranks.front()) + at;
  const T* const last = reinterpret_cast<const T*>(ranks.back()) + at;
  if (ranks.size() == 1) {
    for (std::int64_t i = 0; i < n; ++i) into[i] = static_cast<Accumulator>(first[i]);
  } else if (ranks.size() == 2) {
    for (std::int64_t i = 0; i < n; ++i) {
      into[i] =
          joined<kReduce>(static_cast<Accumulator>(first[i]), static_cast<Accumulator>(last[i]));
    }
  } else {
    const std::size_t half = std::bit_floor(ranks.size() - 1);
    reduce_block<kReduce, T>(ranks.first(half), at, n, into, apart);
    reduce_block<kReduce, T>(ranks.subspan(half), at, n, apart, apart + kBlock);
    for (std::int64_t i = 0; i < n; ++i) into[i] = joined<kReduce>(into[i], apart[i]);
  }
}

// Elements [first, last), in blocks whose accumulators stay in the L1 cache.
template <Reduce kReduce, class T>
void reduce_range(const std::vector<const std::byte*>& contributions, std::byte* out,
                  std::int64_t first, std::int64_t last) {
  using Accumulator = typename AccumulatorOf<T>::Type;
  std::array<Accumulator, (kMostApart + 1) * kBlock> blocks;
  Accumulator* const sum = blocks.data();
  for (std::int64_t at = first; at < last; at += kBlock) {
    const std::int64_t n = std::min(kBlock, last - at);
    reduce_block<kReduce, T>(contributions, at, n, sum, sum + kBlock);
    T* to = reinterpret_cast<T*>(out) + at;
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sum[i]);
  }
}

template <class T>
void reduce_as(Reduce reduce, const std::vector<const std::byte*>& contributions, std::byte* out,
               std::int64_t count) {
  constexpr std::int64_t kGrain = 32 * 1024;
  cpu::parallel_for(count, kGrain, [&](std::int64_t first, std::int64_t last) {
    if (reduce == Reduce::kSum) {
      reduce_range<Reduce::kSum, T>(contributions, out, first, last);
    } else {
      reduce_range<Reduce::kMax, T>(contributions, out, first, last);
    }
  });
}

}  // namespace

void reduce_in_order(Reduce reduce, DType dtype, const std::vector<const std::byte*>& contributions,
                     std::byte* out, std::int64_t count) {
  require(contributions.size() <= std::size_t{1} << kMostApart, contributions.size(),
          " ranks are too many for one sum");
  switch (dtype) {
    case DType::kF32:
      return reduce_as<float>(reduce, contributions, out, count);
    case DType::kF64:
      return reduce_as<double>(reduce, contributions, out, count);
    case DType::kBf16:
      return reduce_as<Bf16>(reduce, contributions, out, count);
    case DType::kF16:
      return reduce_as<F16>(reduce, contributions, out, count);
    case DType::kI32:
      return reduce_as<std::int32_t>(reduce, contributions, out, count);
  }
}

}  // namespace trireme::comm
