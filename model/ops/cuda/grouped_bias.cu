#include "model/ops/grouped_bias.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;

// Rows of a kernel, each by a team along x.
struct GroupedRows {
  std::int64_t count = 0, width = 0;
  const std::int32_t* starts = nullptr;  // null: one group of all rows
  int groups = 1, biases = 1;

  __device__ std::int64_t row() const {
    return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  }
  // The last group that starts at the row or before it; its end is beyond the row unless the row
  // is of no group.
  __device__ int group_of(std::int64_t row) const {
    int first = 0, end = groups;
    while (end - first > 1) {
      const int middle = (first + end) / 2;
      (starts[middle] <= row ? first : end) = middle;
    }
    return first;
  }
  __device__ bool has(std::int64_t row) const {
    return row < count && (starts == nullptr || row < starts[groups]);
  }
};

template <int n, class T>
__global__ __launch_bounds__(kThreads) void add_bias_kernel(T* y, const T* bias,
                                                            const GroupedRows rows) {
  const std::int64_t row = rows.row();
  if (!rows.has(row)) return;
  const T* const own = bias + rows.group_of(row) % rows.biases * rows.width;
  for (std::int64_t i = std::int64_t{threadIdx.x} * n; i < rows.width;
       i += std::int64_t{blockDim.x} * n) {
    Sum<T> v[n], b[n];
    load(v, y + row * rows.width + i);
    load(b, own + i);
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] += b[k];
    store(y + row * rows.width + i, v);
  }
}

constexpr int kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 4;  // of a warp

// A block sums a strip of 32 packs of columns over the rows of a group.
template <int n, class T>
__global__ __launch_bounds__(kThreads) void bias_sums_kernel(Sum<T>* dbias, const T* dy,
                                                             const Sum<T>* weights,
                                                             const std::int32_t* pairs,
                                                             const GroupedRows rows, bool add) {
  using A = Sum<T>;
  __shared__ A sums[kWarps][32 * n];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const std::int64_t strip = std::int64_t{blockIdx.x} * 32 * n, column = strip + lane * n;
  const int group = static_cast<int>(blockIdx.y);
  const std::int64_t end = rows.starts[group + 1];
  A total[n] = {};
  for (std::int64_t first = rows.starts[group] + warp; column < rows.width && first < end;
       first += kWarps * kRowsAtOnce) {
    Pack<T, n> packs[kRowsAtOnce];
    A weight[kRowsAtOnce];
#pragma unroll
    for (int j = 0; j < kRowsAtOnce; ++j) {
      const std::int64_t row = min(first + j * kWarps, end - 1);
      packs[j] = pack_at<n>(dy + row * rows.width + column);
      weight[j] = weights != nullptr ? weights[pairs != nullptr ? pairs[row] : row] : A(1);
    }
#pragma unroll
    for (int j = 0; j < kRowsAtOnce; ++j) {
      if (first + j * kWarps >= end) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) total[k] += weight[j] * widened(packs[j][k]);
    }
  }
#pragma unroll
  for (int k = 0; k < n; ++k) sums[warp][lane * n + k] = total[k];
  __syncthreads();
  for (int i = warp * 32 + lane; i < 32 * n && strip + i < rows.width; i += kThreads) {
    A found = 0;
    for (int w = 0; w < kWarps; ++w) found += sums[w][i];
    A* const to = dbias + group * rows.width + strip + i;
    *to = add ? *to + found : found;
  }
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void bias_dots_kernel(Sum<T>* dweights, const T* dy,
                                                             const T* bias,
                                                             const std::int32_t* pairs,
                                                             const GroupedRows rows) {
  using A = Sum<T>;
  Team<A> team{nullptr, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = rows.row();
  const bool exists = rows.has(row);
  const std::int64_t bias_at = exists ? rows.group_of(row) % rows.biases * rows.width : 0;
  A dot = 0;
  for (std::int64_t i = std::int64_t{threadIdx.x} * n; exists && i < rows.width;
       i += std::int64_t{blockDim.x} * n) {
    A a[n], b[n];
    load(a, dy + row * rows.width + i);
    load(b, bias + bias_at + i);
#pragma unroll
    for (int k = 0; k < n; ++k) dot += a[k] * b[k];
  }
  dot = team.sum(dot);
  if (exists && team.lane == 0) dweights[pairs != nullptr ? pairs[row] : row] += dot;
}

GroupedRows grouped_rows(const Tensor& rows, const Tensor& starts, const Tensor& bias) {
  return {.count = rows.rows(),
          .width = rows.width(),
          .starts = at<std::int32_t>(starts),
          .groups = starts ? static_cast<int>(starts.count() - 1) : 1,
          .biases = static_cast<int>(bias.count() / rows.width())};
}

// As many lanes per row as it has packs, at most kMost.
template <int n, int kMost, class... Parameters>
void over_grouped_rows(Stream& stream, void (*kernel)(Parameters...), const GroupedRows& rows,
                       std::type_identity_t<Parameters>... arguments) {
  const auto packs = static_cast<std::uint64_t>(parts(rows.width, n));
  const auto lanes = std::min<std::int64_t>(kMost, static_cast<std::int64_t>(std::bit_ceil(packs)));
  const std::int64_t teams = kThreads / lanes;
  launch(kernel, extent(parts(rows.count, teams)), dim3(extent(lanes), extent(teams)), 0, stream,
         arguments...);
}

}  // namespace

void grouped_bias(Stream& stream, Tensor y, Tensor bias, Tensor starts) {
  const GroupedRows rows = grouped_rows(y, starts, bias);
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      over_grouped_rows<n, kThreads>(stream, add_bias_kernel<n, T>, rows, y.as<T>(), bias.as<T>(),
                                     rows);
    };
    with_packs<T>(rows.width, run, y, bias);
  });
}

void grouped_bias_backward(Stream& stream, Tensor dbias, Tensor dy, const RowWeights& weights,
                           Tensor starts, Accumulate accumulate) {
  const GroupedRows rows = grouped_rows(dy, starts, dbias);
  with_float(dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(bias_sums_kernel<n, T>, dim3(extent(parts(rows.width, 32 * n)), extent(rows.groups)),
             dim3(32, kWarps), 0, stream, dbias.as<Sum<T>>(), dy.as<T>(),
             at<Sum<T>>(weights.weights), at<std::int32_t>(weights.pairs), rows,
             accumulate == Accumulate::kAdd);
    };
    with_packs<T>(rows.width, run, dy);
  });
}

void grouped_bias_dots(Stream& stream, Tensor dweights, Tensor dy, Tensor bias, Tensor pairs,
                       Tensor starts) {
  const GroupedRows rows = grouped_rows(dy, starts, bias);
  with_float(dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      // A warp: sums of a block would wait at each row.
      over_grouped_rows<n, 32>(stream, bias_dots_kernel<n, T>, rows, dweights.as<Sum<T>>(),
                               dy.as<T>(), bias.as<T>(), at<std::int32_t>(pairs), rows);
    };
    with_packs<T>(rows.width, run, dy, bias);
  });
}

}  // namespace trireme::ops::cuda
