#include "parallel/comm/ordered_reduce.h"

#include <algorithm>
#include <array>

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
struct AccumulatorOf<std::int32_t> {
  using Type = std::int64_t;
};

template <class T>
T larger(T a, T b) {
  return a < b || b != b ? b : a;
}

// Elements [first, last), in blocks whose accumulator stays in the first cache.
template <Reduce kReduce, class T>
void reduce_range(const std::vector<const std::byte*>& contributions, std::byte* out,
                  std::int64_t first, std::int64_t last) {
  using Accumulator = typename AccumulatorOf<T>::Type;
  constexpr std::int64_t kBlock = 1024;
  std::array<Accumulator, kBlock> block{};
  for (std::int64_t at = first; at < last; at += kBlock) {
    const std::int64_t n = std::min(kBlock, last - at);
    Accumulator* sum = block.data();
    const T* head = reinterpret_cast<const T*>(contributions.front()) + at;
    for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<Accumulator>(head[i]);
    for (std::size_t r = 1; r < contributions.size(); ++r) {
      const T* next = reinterpret_cast<const T*>(contributions[r]) + at;
      for (std::int64_t i = 0; i < n; ++i) {
        const Accumulator value = static_cast<Accumulator>(next[i]);
        sum[i] = kReduce == Reduce::kSum ? sum[i] + value : larger(sum[i], value);
      }
    }
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
  switch (dtype) {
    case DType::kF32:
      return reduce_as<float>(reduce, contributions, out, count);
    case DType::kF64:
      return reduce_as<double>(reduce, contributions, out, count);
    case DType::kBf16:
      return reduce_as<Bf16>(reduce, contributions, out, count);
    case DType::kI32:
      return reduce_as<std::int32_t>(reduce, contributions, out, count);
  }
}

}  // namespace trireme::comm
