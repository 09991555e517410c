#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/attention_mma.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 128;
constexpr float kLn2 = 0.6931471805599453f;

// Keys per tile: as many as fit in a thread's registers with its part of the sums.
template <int W>
inline constexpr int kKeys = W <= 128 ? 64 : 32;

// For rows g and g + 8 of a warp's 16: the running maximum score in powers of two, this thread's
// part of the sum of powers, and the first and last visible key.
struct Running {
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  int query[2], start[2], last[2];
};

// Scores become 2^(scale score - running maximum); `shrink` rescales earlier sums.
template <int kCount>
__device__ __forceinline__ void soften(float (&scores)[kCount / 8][4], float (&shrink)[2],
                                       Running& rows, int first_key, bool masked, float scale) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kCount / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n][2 * r + e];
        const int key = first_key + 8 * n + 2 * t + e;
        if (masked && (key > rows.last[r] || key < rows.start[r])) score = -INFINITY;
        largest = fmaxf(largest, score);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float now = fmaxf(rows.top[r], largest * scale);
    // No visible key yet: any finite number works, as all terms are zero.
    const float base = now == -INFINITY ? 0.0f : now;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kCount / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n][2 * r + e];
        score = power_of_two(fmaf(score, scale, -base));
        total += score;
      }
    }
    shrink[r] = power_of_two(rows.top[r] - base);
    rows.sum[r] = rows.sum[r] * shrink[r] + total;
    rows.top[r] = now;
  }
}

// Scores before scaling become cap tanh(score inverse_cap).
template <class T, int kCount>
__device__ __forceinline__ void cap_scores(float (&scores)[kCount / 8][4], float cap,
                                           float inverse_cap) {
#pragma unroll
  for (int n = 0; n < kCount / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      scores[n][e] = cap * hyperbolic_tangent<T>(scores[n][e] * inverse_cap);
  }
}

// One tile of queries of one head. Asynchronous loads of keys and values alternate: values load
// while scores are computed, and the next keys load while values are accumulated.
template <class In, int W, bool kDrops>
__global__ __launch_bounds__(kThreads) void attention_mma(const In in, const ResultOf<In> to) {
  using T = typename In::Element;
  constexpr bool kHolds = W <= 128;  // a warp's queries fit in registers
  T* const q_tile = trireme::cuda::dynamic_shared<T>();
  T* const k_tile = q_tile + kOwnRows * W;
  T* const v_tile = k_tile + kKeys<W> * W;
  const int batch = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  // The longest rows first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kOwnRows;
  const int kv_head = head / in.group();
  const HeadRows<const T> k = in.keys(batch, kv_head), v = in.values(batch, kv_head);
  const std::int32_t* const starts = in.starts(batch);
  const int own = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = static_cast<float>(in.scale) * kLog2E;

  Running rows;
  for (int r = 0; r < 2; ++r) {
    rows.query[r] = first_query + own + lane / 4 + 8 * r;
    rows.start[r] = starts[min(rows.query[r], in.seq - 1)];
    rows.last[r] = in.last_seen(batch, rows.query[r]);
  }
  const int first_end = in.last_seen(batch, first_query + own) + 1;
  const int last_start = starts[min(first_query + own + kWarpRows, in.seq) - 1];
  float mixed[W / 8][4] = {};
  std::uint32_t queries[kHolds ? W / 16 : 1][4];

  const RowRange seen = in.seen(batch, first_query, min(first_query + kOwnRows, in.seq));
  const int first_tile = seen.first / kKeys<W>;
  const int last_tile = In::kIsPart && seen.end == 0 ? -1 : (seen.end - 1) / kKeys<W>;
  if (!In::kIsPart || last_tile >= 0) {
    load_tile<kOwnRows, W, kThreads>(q_tile, in.queries(batch, head), first_query);
    load_tile<kKeys<W>, W, kThreads>(k_tile, k, first_tile * kKeys<W>);
    close_copies();
  }
  for (int tile = first_tile; tile <= last_tile; ++tile) {
    const int first_key = tile * kKeys<W>;
    wait_copies<0>();
    __syncthreads();
    load_tile<kKeys<W>, W, kThreads>(v_tile, v, first_key);
    close_copies();
    if constexpr (kHolds) {
      if (tile == first_tile) {
#pragma unroll
        for (int i = 0; i < W / 16; ++i) load_left<W>(queries[i], q_tile, own, i);
      }
    }
    float scores[kKeys<W> / 8][4] = {};
#pragma unroll(kHolds ? W / 16 : 4)
    for (int i = 0; i < W / 16; ++i) {
      if constexpr (!kHolds) load_left<W>(queries[0], q_tile, own, i);
      multiply_rows<kKeys<W>, W>(scores, queries[kHolds ? i : 0], k_tile, i);
    }
    const bool masked = first_key + kKeys<W> > first_end || first_key < last_start;
    if (in.cap > 0) cap_scores<T, kKeys<W>>(scores, in.cap, in.inverse_cap);
    float shrink[2];
    soften<kKeys<W>>(scores, shrink, rows, first_key, masked, scale);
    if constexpr (kDrops) {
      const std::uint32_t kept =
          kept_bits<kKeys<W>, false>(in, batch, head, first_query + own, first_key);
#pragma unroll
      for (int n = 0; n < kKeys<W> / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[n][e] = dropped(scores[n][e], in.kept, kept, n, e);
      }
    }
#pragma unroll
    for (int n = 0; n < W / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) mixed[n][e] *= shrink[e / 2];
    }
    wait_copies<0>();
    __syncthreads();
    if (tile < last_tile) {
      load_tile<kKeys<W>, W, kThreads>(k_tile, k, first_key + kKeys<W>);
      close_copies();
    }
    mix_rows<kKeys<W>, W, W>(mixed, scores, v_tile, 0);
  }

  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
    if (lane % 4 == 0 && rows.query[r] < in.seq) {
      to.lse[(std::int64_t{batch} * in.seq + rows.query[r]) * in.heads + head] =
          rows.top[r] * kLn2 + logf(rows.sum[r]);
    }
  }
  // Only this warp reads and writes its rows of the query tile.
  put_rows<W, W>(q_tile, own, 0, mixed, inverse_sum<In>(rows.sum[0]), inverse_sum<In>(rows.sum[1]));
  __syncwarp();
  store_rows<W>(in.of_queries(to.out, batch, head), q_tile, own, first_query + own);
}

template <class In>
void launch_of(Stream& stream, int batch, const In& in, const ResultOf<In>& to) {
  with_padded_width(in.width, [&]<int W>() {
    const dim3 grid(extent(parts(in.seq, kOwnRows)), extent(in.heads), extent(batch));
    const std::size_t bytes = sizeof(typename In::Element) * W * (kOwnRows + 2 * kKeys<W>);
    launch(in.words ? attention_mma<In, W, true> : attention_mma<In, W, false>, grid, kThreads,
           bytes, stream, in, to);
  });
}

}  // namespace

void launch_attention(Stream& stream, int batch, const HeadsWithDropout<Bf16>& in,
                      const AttentionResult<Bf16, float>& to) {
  if (in.words || !launch_attention_wgmma(stream, batch, in, to)) launch_of(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const HeadsWithDropout<F16>& in,
                      const AttentionResult<F16, float>& to) {
  if (in.words || !launch_attention_wgmma(stream, batch, in, to)) launch_of(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const PartHeads<Bf16>& in,
                      const AttentionResult<Bf16, float>& to) {
  launch_of(stream, batch, in, to);
}
void launch_attention(Stream& stream, int batch, const PartHeads<F16>& in,
                      const AttentionResult<F16, float>& to) {
  launch_of(stream, batch, in, to);
}

}  // namespace trireme::ops::cuda
