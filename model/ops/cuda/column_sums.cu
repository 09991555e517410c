#include "model/ops/cuda/column_sums.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 1024;

// Lanes along a row, and rows that a block reads at once. A warp reads 64 bytes of each of 8 rows,
// so that narrow strips of columns, of which there are many, occupy the whole device.
template <int kCount>
constexpr int kLanes = kCount > 1 ? 4 : 32;
template <int kCount>
constexpr int kGroups = kThreads / kLanes<kCount>;

template <int kCount, class T>
__global__ __launch_bounds__(kThreads, 1) void column_sums_kernel(Sum<T>* out, const T* x,
                                                                  std::int64_t rows,
                                                                  std::int64_t stride,
                                                                  std::int64_t columns, bool add) {
  constexpr int kStrip = kLanes<kCount> * kCount;
  __shared__ Sum<T> sums[kGroups<kCount>][kStrip];
  const int group = static_cast<int>(threadIdx.y);
  const int place = static_cast<int>(threadIdx.x) * kCount;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kStrip + place;
  const bool mine = column < columns;
  Sum<T> total[kCount] = {};
  if (mine) {
#pragma unroll 4
    for (std::int64_t row = group; row < rows; row += kGroups<kCount>) {
      Sum<T> values[kCount];
      load(values, x + row * stride + column);
#pragma unroll
      for (int k = 0; k < kCount; ++k) total[k] += values[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) sums[group][place + k] = total[k];
#pragma unroll 1
  for (int half = kGroups<kCount> / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group >= half) continue;
#pragma unroll
    for (int k = 0; k < kCount; ++k) sums[group][place + k] += sums[group + half][place + k];
  }
  if (group > 0 || !mine) return;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const Sum<T> found = sums[0][place + k];
    out[column + k] = add ? out[column + k] + found : found;
  }
}

}  // namespace

void column_sums(Stream& stream, Tensor out, Tensor x, Accumulate accumulate, std::int64_t first) {
  const std::int64_t columns = out.count();
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(column_sums_kernel<n, T>, extent(parts(columns, kLanes<n> * n)),
             dim3(kLanes<n>, kGroups<n>), 0, stream, at<Sum<T>>(out), at<T>(x, first), x.rows(),
             x.width(), columns, accumulate == Accumulate::kAdd);
    };
    // The last pack of a strip must be whole too.
    constexpr int kCount = 16 / static_cast<int>(sizeof(T));
    const bool whole = first % kCount == 0 && columns % kCount == 0;
    with_packs<T>(whole ? x.width() : 1, run, x);
  });
}

}  // namespace trireme::ops::cuda
