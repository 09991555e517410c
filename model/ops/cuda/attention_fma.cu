#include "model/ops/cuda/attention_fma.cuh"

#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_kernels.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

template <class T, int kThreads>
__device__ __forceinline__ T largest_of_row(T value) {
  for (int apart = 1; apart < kThreads; apart *= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, apart));
  return value;
}

template <class In, int W>
__global__ __launch_bounds__(FmaTile<typename In::Element, W>::kThreads,
                             1) void attention_fma(const In in, const ResultOf<In> to) {
  using T = typename In::Element;
  using F = FmaTile<T, W>;
  T* const q_tile = trireme::cuda::dynamic_shared<T>();
  T* const k_tile = q_tile + F::kOwnSize;
  T* const v_tile = k_tile + F::kOtherSize;
  T* const weights = v_tile + F::kOtherSize;  // [kOwn, kOther]
  const int batch = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * F::kOwn;
  const int row = static_cast<int>(threadIdx.x) / F::kRowThreads;
  const int lane = static_cast<int>(threadIdx.x) % F::kRowThreads, query = first_query + row;
  const int kv_head = head / in.group();
  const HeadRows<const T> k = in.keys(batch, kv_head), v = in.values(batch, kv_head);
  const int start = in.starts(batch)[min(query, in.seq - 1)], last = in.last_seen(batch, query);
  const T none = static_cast<T>(-INFINITY), scale = static_cast<T>(in.scale);

  T top = none, sum = 0;
  Vector<T> mixed[F::kVectors] = {};
  load_fma_tile<T, W, F::kOwn>(q_tile, in.queries(batch, head), first_query);
  const RowRange seen = in.seen(batch, first_query, min(first_query + F::kOwn, in.seq));
  for (int key = seen.first / F::kOther * F::kOther; key < seen.end; key += F::kOther) {
    load_fma_tile<T, W, F::kOther>(k_tile, k, key);
    load_fma_tile<T, W, F::kOther>(v_tile, v, key);
    __syncthreads();
    T scores[F::kScores];
    multiply_fma<T, W>(scores, q_tile + row * F::kPitch, k_tile, in.width);
    if (in.cap > 0) {
#pragma unroll
      for (int i = 0; i < F::kScores; ++i)
        scores[i] = in.cap * hyperbolic_tangent<T>(scores[i] * in.inverse_cap);
    }
    T now = top;
#pragma unroll
    for (int i = 0; i < F::kScores; ++i) {
      const int at = key + lane + F::kRowThreads * i;
      scores[i] = at <= last && at >= start ? scores[i] * scale : none;
      now = max(now, scores[i]);
    }
    now = largest_of_row<T, F::kRowThreads>(now);
    // No visible key yet: any finite number works, as all terms are zero.
    const T base = now == none ? T(0) : now, shrink = std::exp(top - base);
    top = now;
    sum *= shrink;
#pragma unroll
    for (int i = 0; i < F::kScores; ++i) {
      scores[i] = std::exp(scores[i] - base);
      sum += scores[i];
    }
    if (in.words) {
#pragma unroll
      for (int i = 0; i < F::kScores; ++i)
        scores[i] *= in.factor(batch, head, query, key + lane + F::kRowThreads * i);
    }
#pragma unroll
    for (int i = 0; i < F::kVectors; ++i) {
#pragma unroll
      for (int e = 0; e < F::kLength; ++e) mixed[i].x[e] *= shrink;
    }
    mix_fma<T, W>(mixed, scores, weights, v_tile);
    __syncthreads();
  }
  for (int apart = 1; apart < F::kRowThreads; apart *= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  store_fma<T, W>(in.of_queries(to.out, batch, head), mixed, query, inverse_sum<In>(sum));
  if (lane == 0 && query < in.seq) {
    to.lse[(std::int64_t{batch} * in.seq + query) * in.heads + head] = top + std::log(sum);
  }
}

template <class In>
void launch_fma(Stream& stream, int batch, const In& in, const ResultOf<In>& to) {
  using T = typename In::Element;
  with_padded_width(in.width, [&]<int W>() {
    using F = FmaTile<T, W>;
    const dim3 grid(extent(parts(in.seq, F::kOwn)), extent(in.heads), extent(batch));
    const std::size_t bytes = sizeof(T) * (F::kOwnSize + 2 * F::kOtherSize + F::kOwn * F::kOther);
    launch(attention_fma<In, W>, grid, F::kThreads, bytes, stream, in, to);
  });
}

}  // namespace

void launch_attention(Stream& stream, int batch, const HeadsWithDropout<float>& in,
                      const AttentionResult<float, float>& to) {
  launch_fma(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const HeadsWithDropout<double>& in,
                      const AttentionResult<double, double>& to) {
  launch_fma(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const PartHeads<float>& in,
                      const AttentionResult<float, float>& to) {
  launch_fma(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const PartHeads<double>& in,
                      const AttentionResult<double, double>& to) {
  launch_fma(stream, batch, in, to);
}

}  // namespace trireme::ops::cuda
