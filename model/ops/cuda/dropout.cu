#include "model/ops/dropout.h"

#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/philox.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

struct Draw {
  const std::int32_t* words;
  std::uint64_t key;
  std::int64_t width;
  std::uint32_t dropped;
};

// A thread's n elements, which divide 8, are columns of one row and of one draw.
template <int kCount, class T>
__global__ void dropout_kernel(T* y, const T* x, Sum<T> scale, const Draw how, std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    const std::int64_t row = first / how.width, column = first % how.width;
    const PhiloxWords random = philox_words(how.key, static_cast<std::uint64_t>(column / 8),
                                            static_cast<std::uint32_t>(how.words[row]));
    Sum<T> v[n];
    load(v, x + first);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const auto place = static_cast<unsigned>((column + k) % 8);
      const std::uint32_t bits = random[place / 2] >> (place % 2 * 16) & 0xffff;
      v[k] = bits < how.dropped ? Sum<T>(0) : v[k] * scale;
    }
    store(y + first, v);
  });
}

}  // namespace

void dropout(Stream& stream, Tensor y, Tensor x, const Dropout& how) {
  const std::int64_t count = y.count();
  const Draw draw{how.words.as<std::int32_t>(), how.key, x.width(), how.dropped()};
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(dropout_kernel<n, T>, flat_blocks<n>(count), kFlatThreads, 0, stream, at<T>(y),
             at<T>(x), static_cast<Sum<T>>(how.scale()), draw, count);
    };
    with_packs<T>(draw.width, run, y, x);
  });
}

}  // namespace trireme::ops::cuda
