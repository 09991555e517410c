#include "model/ops/attention_sink.h"

#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/head_teams.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

// Rows of one head of one token, each by a team of lanes of a warp along x.
template <class T>
struct SinkRows {
  T* out = nullptr;
  Sum<T>* lse = nullptr;
  const T* sinks = nullptr;
  std::int64_t count = 0;
  int heads = 0, width = 0;

  __device__ std::int64_t row() const {
    return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  }
  __device__ Sum<T> sink(std::int64_t row) const { return widened(sinks[row % heads]); }
};

template <int n, class T>
__global__ __launch_bounds__(kHeadThreads) void attention_sink_kernel(const SinkRows<T> rows) {
  using A = Sum<T>;
  const std::int64_t row = rows.row();
  const bool exists = row < rows.count;
  const A sink = exists ? rows.sink(row) : A(0), lse = exists ? rows.lse[row] : A(0);
  __syncwarp();  // all lanes have read the lse
  if (!exists) return;
  // exp of the smaller of the two over the larger cannot overflow.
  const A above = sink - lse, ratio = std::exp(above < 0 ? above : -above);
  const A share = (above < 0 ? A(1) : ratio) / (1 + ratio);
  if (threadIdx.x == 0) rows.lse[row] = (above < 0 ? lse : sink) + std::log1p(ratio);
  for (int i = static_cast<int>(threadIdx.x) * n; i < rows.width;
       i += static_cast<int>(blockDim.x) * n) {
    T* const at = rows.out + row * rows.width + i;
    A v[n];
    load(v, at);
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] *= share;
    store(at, v);
  }
}

template <int n, class T>
__global__ __launch_bounds__(kHeadThreads) void sink_backward_kernel(Sum<T>* partial, const T* dout,
                                                                     const SinkRows<T> rows) {
  using A = Sum<T>;
  Team<A> team{nullptr, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = rows.row();
  const bool exists = row < rows.count;
  A dot = 0;
  for (int i = team.lane * n; exists && i < rows.width; i += team.lanes * n) {
    A a[n], b[n];
    load(a, dout + row * rows.width + i);
    load(b, rows.out + row * rows.width + i);
#pragma unroll
    for (int k = 0; k < n; ++k) dot += a[k] * b[k];
  }
  dot = team.sum(dot);
  if (exists && team.lane == 0) partial[row] = -std::exp(rows.sink(row) - rows.lse[row]) * dot;
}

template <class T>
SinkRows<T> sink_rows(const Tensor& out, const Tensor& lse, const Tensor& sinks,
                      const Heads& heads) {
  return {.out = out.as<T>(),
          .lse = lse.as<Sum<T>>(),
          .sinks = sinks.as<T>(),
          .count = lse.count(),
          .heads = static_cast<int>(heads.heads),
          .width = static_cast<int>(heads.width)};
}

}  // namespace

void attention_sink(Stream& stream, Tensor out, Tensor lse, Tensor sinks, const Heads& heads) {
  with_float(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>, unsigned grid, dim3 block) {
      launch(attention_sink_kernel<n, T>, grid, block, 0, stream,
             sink_rows<T>(out, lse, sinks, heads));
    };
    over_heads<T>(lse.count(), heads.width, run, out);
  });
}

void attention_sink_backward(Stream& stream, Tensor partial, const AttentionSinkBackward& how) {
  with_float(how.out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>, unsigned grid, dim3 block) {
      launch(sink_backward_kernel<n, T>, grid, block, 0, stream, partial.as<Sum<T>>(),
             how.dout.as<T>(), sink_rows<T>(how.out, how.lse, how.sinks, how.heads));
    };
    over_heads<T>(how.lse.count(), how.heads.width, run, how.out, how.dout);
  });
}

}  // namespace trireme::ops::cuda
