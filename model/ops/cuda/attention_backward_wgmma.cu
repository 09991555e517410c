#include "model/ops/cuda/attention_backward_wgmma.cuh"

#include <climits>
#include <cmath>

#include "model/device/cuda/launch.cuh"

// The two passes of attention_backward_mma.cu for compute capability 9.0. One warpgroup loads tiles
// of the other kind, two multiply; each of those owns 64 rows. Rows of p and ds are the own ones in
// both passes, so that they are left operands in registers. After FlashAttention-2 (Dao 2023,
// arXiv:2307.08691) and FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608).
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// Starts c [64, kRows] = left right^T over W columns, both in tiles of 64 columns with `kRows`
// rows.
template <class T, int W, int kRows>
__device__ __forceinline__ void start_scores(float (&c)[kRows / 2], std::uint64_t left,
                                             std::uint64_t right) {
#pragma unroll
  for (int i = 0; i < W / 16; ++i) {
    const std::uint64_t step = k_step(i % 4) + static_cast<std::uint64_t>(i / 4 * kRows * 128 >> 4);
    start_product<T, kRows, false, false>(c, left + step, right + step, i > 0);
  }
  commit_products();
}

// Starts c [64, W] += weights [64, kRows] right [kRows, W].
template <class T, int W, int kRows>
__device__ __forceinline__ void start_mix(float (&c)[W / 2],
                                          const std::uint32_t (&weights)[kRows / 16][4],
                                          std::uint64_t right) {
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i)
    start_product<T, W, true>(c, weights[i], right + row_step(i), true);
}

template <class T, int kRows>
__device__ __forceinline__ void pack_quad(std::uint32_t (&to)[kRows / 16][4], int n,
                                          const float* quad) {
  to[n / 2][n % 2 * 2] = pack<T>(quad[0], quad[1]);
  to[n / 2][n % 2 * 2 + 1] = pack<T>(quad[2], quad[3]);
}

// Stores rows g and g + 8 from `first` on of sums [64, W] times `factor`. The four lanes of a row
// exchange pairs, so that each stores 16 bytes.
template <int W, class T>
__device__ __forceinline__ void store_sums(const HeadRows<T>& to, const float (&sums)[W / 2],
                                           float factor, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
#pragma unroll
    for (int m = 0; m < W / 32; ++m) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = sums + 16 * m + 4 * i + 2 * half;
        pairs[i] = pack<T>(pair[0] * factor, pair[1] * factor);
      }
#pragma unroll
      for (int apart = 1; apart < 4; apart *= 2) {
        const bool upper = (t & apart) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if ((i & apart) != 0) continue;
          std::uint32_t &low = pairs[i], &high = pairs[i + apart];
          const std::uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? low : high, apart);
          (upper ? low : high) = got;
        }
      }
      if (row < to.rows) {
        *reinterpret_cast<uint4*>(to.first + row * to.stride + 32 * m + 8 * t) =
            uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
      }
    }
  }
}

template <class P, class T>
__device__ __forceinline__ void multiply_tiles(const BackwardShared<T, P>& shared,
                                               const AttentionHeads<T>& in,
                                               const AttentionGradient<T, float>& gradient,
                                               const BackwardWalk& walk) {
  constexpr int W = P::W, kRows = P::kRows;
  constexpr bool kOfKeys = P::kOfKeys;
  constexpr auto kTileStep = static_cast<std::uint64_t>(2 * P::kTile >> 4);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int group_row = walk.first_own + 64 * group;
  const int first_row = group_row + static_cast<int>(threadIdx.x) / 32 % 4 * kWarpRows;
  const float scale = static_cast<float>(in.scale) * kLog2E;

  // Of queries.
  float lse[2] = {}, delta[2] = {};
  int start[2] = {INT_MAX, INT_MAX}, last_start = 0, group_start = 0;
  if constexpr (!kOfKeys) {
    const std::int32_t* const starts = in.starts(walk.batch);
    for (int r = 0; r < 2; ++r) {
      const int query = first_row + g + 8 * r;
      if (query >= in.seq) continue;
      const int at = (walk.batch * in.seq + query) * in.heads + walk.head;
      lse[r] = gradient.lse[at] * kLog2E;
      delta[r] = gradient.delta[at];
      start[r] = starts[query];
    }
    last_start = starts[min(first_row + kWarpRows, in.seq) - 1];
    group_start = starts[min(group_row, in.seq - 1)];
  }

  float first_sum[W / 2] = {};
  float second_sum[kOfKeys ? W / 2 : 1] = {};
  float s[kRows / 2], d[kRows / 2];
  constexpr auto kOwnStep = static_cast<std::uint64_t>(2 * P::kOwn * W >> 4);
  const int own_at = 64 * group / kRows * P::kTile + 64 * group % kRows * kSwizzledRow;
  const std::uint64_t own_first = along_rows(shared.own[0] + own_at),
                      own_second = own_first + kOwnStep;
  const std::uint64_t rows = along_rows(shared.others);
  const std::uint64_t columns = across_rows(shared.others, kRows * 128);
  Stage<P::kStages> at;
  wait_phase(shared.own_full, 0);
  walk.tiles<P>([&](int /*head*/, int first_other) {
    wait_phase(shared.full + at.index, at.parity);
    PhaseBarrier* const empty = shared.empty + at.index;
    const float2* const readers = shared.readers + at.index * kRows;
    const int* const starts = shared.starts + at.index * kRows;
    const std::uint64_t tile = static_cast<std::uint64_t>(at.index) * 2 * kTileStep;
    at.advance();
    const bool unseen = kOfKeys
                            ? first_other + kRows <= group_row || starts[0] >= group_row + 64
                            : first_other + kRows <= group_start || first_other >= group_row + 64;
    if (!unseen) {
      fence_products();
      start_scores<T, W, kRows>(s, own_first, rows + tile);
      start_scores<T, W, kRows>(d, own_second, rows + tile + kTileStep);
      wait_products<1>();
      hold(s);
      const bool masked =
          kOfKeys ? first_other < first_row + kWarpRows - 1 || starts[kRows - 1] > first_row
                  : first_other + kRows - 1 > first_row || first_other < last_start;
      if (masked) {
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) {
          const int row = first_row + g + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * t + i % 2;
          const int key = kOfKeys ? row : first_other + column;
          const int query = kOfKeys ? first_other + column : row;
          if (key > query || key < (kOfKeys ? starts[column] : start[i / 2 % 2])) s[i] = -INFINITY;
        }
      }
      std::uint32_t p[kRows / 16][4], ds[kRows / 16][4];
      if constexpr (kOfKeys) {
        wait_products<0>();
        hold(d);
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
          // Of two queries.
          const float4 reader = *reinterpret_cast<const float4*>(readers + 8 * n + 2 * t);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = 4 * n + e;
            s[i] = power_of_two(fmaf(s[i], scale, -(e % 2 == 0 ? reader.x : reader.z)));
            d[i] = s[i] * (d[i] - (e % 2 == 0 ? reader.y : reader.w));
          }
          pack_quad<T, kRows>(p, n, s + 4 * n);
          pack_quad<T, kRows>(ds, n, d + 4 * n);
        }
        fence_products();
        start_mix<T, W, kRows>(second_sum, p, columns + tile + kTileStep);
      } else {
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) s[i] = power_of_two(fmaf(s[i], scale, -lse[i / 2 % 2]));
        wait_products<0>();
        hold(d);
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
          for (int i = 4 * n; i < 4 * n + 4; ++i) d[i] = s[i] * (d[i] - delta[i / 2 % 2]);
          pack_quad<T, kRows>(ds, n, d + 4 * n);
        }
        fence_products();
      }
      start_mix<T, W, kRows>(first_sum, ds, columns + tile);
      commit_products();
      wait_products<0>();
      hold(first_sum);
      if constexpr (kOfKeys) hold(second_sum);
    }
    __syncwarp();
    if (lane == 0) arrive(empty);
  });

  const int head = kOfKeys ? in.heads + walk.kv_head : walk.head;
  store_sums<W>(in.of_all(gradient.dqkv, walk.batch, head), first_sum, static_cast<float>(in.scale),
                first_row);
  if constexpr (kOfKeys) {
    store_sums<W>(in.of_all(gradient.dqkv, walk.batch, head + in.kv_heads), second_sum, 1,
                  first_row);
  }
}

template <class T, class P>
__global__ __launch_bounds__(P::kThreads, 1) void attention_backward_wgmma(
    const __grid_constant__ TensorMap qkv, const __grid_constant__ TensorMap dout,
    const AttentionHeads<T> in, const AttentionGradient<T, float> gradient) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const BackwardShared<T, P> shared;
  const BackwardWalk walk = BackwardWalk::of<P>(in);
  if (threadIdx.x == 0) {
    for (int i = 0; i < P::kStages; ++i) {
      start_barrier(shared.full + i, P::kOfKeys ? 33 : 1);
      start_barrier(shared.empty + i, 4 * P::kGroups);
    }
    start_barrier(shared.own_full, 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<P::kGiven>();
    if (threadIdx.x == 0) {
      load_boxes<P>(shared, in, qkv, dout, walk);
    } else if (P::kOfKeys && threadIdx.x / 32 == 1) {
      load_readers<P>(shared, in, gradient, walk);
    }
  } else {
    take_registers<P::kTaken>();
    multiply_tiles<P>(shared, in, gradient, walk);
  }
#endif
}

template <int W, bool kOfKeys, class T>
void launch_walk(Stream& stream, int batch, const AttentionHeads<T>& in,
                 const AttentionGradient<T, float>& gradient) {
  using P = BackwardPlan<W, kOfKeys>;
  const int device = stream.device().index;
  HeadBoxes boxes{.first = in.qkv,
                  .batch = batch,
                  .seq = in.seq,
                  .heads = in.heads + 2 * in.kv_heads,
                  .width = W,
                  .rows = P::kRows};
  const TensorMap qkv = tensor_map_of<T>(boxes, device);
  boxes.first = gradient.dout;
  boxes.heads = in.heads;
  const TensorMap dout = tensor_map_of<T>(boxes, device);
  const dim3 grid(extent(kOfKeys ? in.kv_heads : in.heads), extent(batch),
                  extent(parts(in.seq, P::kOwn)));
  launch(attention_backward_wgmma<T, P>, grid, P::kThreads, P::kBytes, stream, qkv, dout, in,
         gradient);
}

template <class T>
bool launch_of(Stream& stream, int batch, const AttentionHeads<T>& in,
               const AttentionGradient<T, float>& gradient) {
  if (!has_warpgroups(stream.device().index) || !in.vectors) return false;
  if (std::int64_t{batch} * in.seq * in.heads > INT_MAX) return false;
  if (in.width == 64) {
    launch_walk<64, true>(stream, batch, in, gradient);
    launch_walk<64, false>(stream, batch, in, gradient);
  } else if (in.width == 128) {
    launch_walk<128, true>(stream, batch, in, gradient);
    launch_walk<128, false>(stream, batch, in, gradient);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool launch_attention_backward_wgmma(Stream& stream, int batch, const AttentionHeads<Bf16>& in,
                                     const AttentionGradient<Bf16, float>& gradient) {
  return launch_of(stream, batch, in, gradient);
}
bool launch_attention_backward_wgmma(Stream& stream, int batch, const AttentionHeads<F16>& in,
                                     const AttentionGradient<F16, float>& gradient) {
  return launch_of(stream, batch, in, gradient);
}

}  // namespace trireme::ops::cuda
