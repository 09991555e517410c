#include "model/ops/strided_copy.h"

#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/philox.cuh"
#include "model/ops/cuda/strided.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

template <class Word>
__global__ void scatter_kernel(Word* whole, const Word* part, std::int64_t count,
                               const Strided where) {
  over_flat<1>(count,
               [&]<int n>(Count<n>, std::int64_t i) { whole[index_of(where, i)] = part[i]; });
}

template <class Word>
__global__ void gather_kernel(Word* part, const Word* whole, std::int64_t count,
                              const Strided where) {
  over_flat<1>(count,
               [&]<int n>(Count<n>, std::int64_t i) { part[i] = whole[index_of(where, i)]; });
}

template <int kCount>
__global__ __launch_bounds__(kFlatThreads) void round_kernel(Bf16* to, const float* from,
                                                             const float* unless_nan,
                                                             std::int64_t count,
                                                             const StochasticRounding how) {
  if (unless_nan && *unless_nan != *unless_nan) return;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    float values[n];
    load(values, from + first);
    const auto index = static_cast<std::uint64_t>(index_of(how.where, first));
    store_rounded(to + first, values, how.key, how.update, index);
  });
}

// Calls body with a zero of the largest word that both tensors, the range and its runs are whole
// numbers of, the number of words and `where` in words.
template <class Body>
void with_words(const Tensor& whole, const Tensor& part, const Strided& where, const Body& body) {
  const auto run = [&](auto zero) {
    const auto elements = static_cast<std::int64_t>(sizeof(zero) / size_of(part.dtype));
    if (elements == 0 || !aligned(sizeof(zero), whole, part)) return false;
    for (const std::int64_t extent :
         {part.count(), where.first, where.run, where.stride, where.start}) {
      if (extent % elements != 0) return false;
    }
    body(zero, part.count() / elements,
         Strided{where.first / elements, where.run / elements, where.stride / elements,
                 where.start / elements});
    return true;
  };
  if (run(uint4{}) || run(std::uint64_t{}) || run(std::uint32_t{})) return;
  run(std::uint16_t{});
}

}  // namespace

void scatter_strided(Stream& stream, Tensor whole, Tensor part, const Strided& where) {
  with_words(whole, part, where, [&](auto zero, std::int64_t count, const Strided& words) {
    using Word = decltype(zero);
    launch(scatter_kernel<Word>, flat_blocks<1>(count), kFlatThreads, 0, stream,
           reinterpret_cast<Word*>(whole.data), reinterpret_cast<const Word*>(part.data), count,
           words);
  });
}

void gather_strided(Stream& stream, Tensor part, Tensor whole, const Strided& where) {
  with_words(whole, part, where, [&](auto zero, std::int64_t count, const Strided& words) {
    using Word = decltype(zero);
    launch(gather_kernel<Word>, flat_blocks<1>(count), kFlatThreads, 0, stream,
           reinterpret_cast<Word*>(part.data), reinterpret_cast<const Word*>(whole.data), count,
           words);
  });
}

void round_stochastically(Stream& stream, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how) {
  const auto run = [&]<int n>(Count<n>) {
    launch(round_kernel<n>, flat_blocks<n>(to.count()), kFlatThreads, 0, stream, to.as<Bf16>(),
           from.as<float>(), at<float>(unless_nan), to.count(), how);
  };
  if (is_in_packs(how.where, to.count(), kRoundedAtOnce) && aligned(16, to, from)) {
    run(Count<kRoundedAtOnce>{});
  } else {
    run(Count<1>{});
  }
}

}  // namespace trireme::ops::cuda
