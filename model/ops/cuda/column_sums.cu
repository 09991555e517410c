#include "model/ops/cuda/column_sums.h"

#include <algorithm>
#include <bit>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 1024;  // at most
// Rows of a thread whose loads are in flight together; doubles need more registers.
template <class T>
constexpr int kAhead = sizeof(T) == 8 ? 4 : 8;

// Lanes along a row. A warp reads 64 bytes of each of 8 rows, so that narrow strips of columns, of
// which there are many, occupy the whole device.
template <int kCount>
constexpr int kLanes = kCount > 1 ? 4 : 32;

template <int kCount, class T>
__global__ __launch_bounds__(kThreads, 1) void column_sums_kernel(Sum<T>* out, const T* x,
                                                                  std::int64_t rows,
                                                                  std::int64_t stride,
                                                                  std::int64_t columns, bool add) {
  using A = Sum<T>;
  constexpr int kRows = kAhead<T>;
  constexpr int kStrip = kLanes<kCount> * kCount;
  __shared__ A sums[kThreads / 32][kStrip];
  const int lane = static_cast<int>(threadIdx.x), groups = static_cast<int>(blockDim.y);
  const int thread = static_cast<int>(threadIdx.y) * kLanes<kCount> + lane;
  const std::int64_t strip = static_cast<std::int64_t>(blockIdx.x) * kStrip;
  const std::int64_t column = min(strip + lane * kCount, columns - kCount);
  A total[kCount] = {};
  for (std::int64_t row = threadIdx.y; row < rows; row += kRows * groups) {
    Pack<T, kCount> packs[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (row + j * groups < rows)
        packs[j] = pack_at<kCount>(x + (row + j * groups) * stride + column);
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (row + j * groups >= rows) continue;
#pragma unroll
      for (int k = 0; k < kCount; ++k) total[k] += widened(packs[j][k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int apart = 16; apart >= kLanes<kCount>; apart /= 2)
      total[k] += __shfl_xor_sync(0xffffffffu, total[k], apart);
    if (thread % 32 < kLanes<kCount>) sums[thread / 32][lane * kCount + k] = total[k];
  }
  __syncthreads();
  for (int i = thread; i < kStrip && strip + i < columns; i += kLanes<kCount> * groups) {
    A found = 0;
    for (int warp = 0; warp < kLanes<kCount> * groups / 32; ++warp) found += sums[warp][i];
    out[strip + i] = add ? out[strip + i] + found : found;
  }
}

}  // namespace

void column_sums(Stream& stream, Tensor out, Tensor x, Accumulate accumulate, std::int64_t first) {
  const std::int64_t columns = out.count();
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      // Whole warps that read all rows at once, if there are few.
      const auto least = std::bit_ceil(static_cast<std::uint64_t>(parts(x.rows(), kAhead<T>)));
      const auto groups = std::clamp<std::int64_t>(least, 32 / kLanes<n>, kThreads / kLanes<n>);
      launch(column_sums_kernel<n, T>, extent(parts(columns, kLanes<n> * n)),
             dim3(kLanes<n>, extent(groups)), 0, stream, at<Sum<T>>(out), at<T>(x, first), x.rows(),
             x.width(), columns, accumulate == Accumulate::kAdd);
    };
    // The last pack of a strip must be whole too.
    constexpr int kCount = 16 / static_cast<int>(sizeof(T));
    const bool whole = first % kCount == 0 && columns % kCount == 0;
    with_packs<T>(whole ? x.width() : 1, run, x);
  });
}

}  // namespace trireme::ops::cuda
