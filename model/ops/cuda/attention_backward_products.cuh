#pragma once
#include <climits>
#include <cmath>
#include <type_traits>

#include "model/ops/cuda/attention_backward_loads.cuh"

// What the warpgroups that multiply do in the backward kernels for sm_90a.
namespace trireme::ops::cuda {

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

// Adds the second warpgroup's sums to the first's, by way of the tiles, which nothing reads any
// more. Both call it; the first has the result.
template <class P, class T>
__device__ __forceinline__ void add_groups(BackwardShared<T, P>& shared, int group,
                                           float (&first)[P::W / 2], float (&second)[P::W / 2]) {
  static_assert(sizeof shared.others >= sizeof(float) * P::W * kWarpgroup);
  float* const sums =
      reinterpret_cast<float*>(shared.others) + static_cast<int>(threadIdx.x) % kWarpgroup;
  sync_named(1, P::kGroups * kWarpgroup);
#pragma unroll
  for (int i = 0; i < P::W / 2 && group == 1; ++i) {
    sums[2 * i * kWarpgroup] = first[i];
    sums[(2 * i + 1) * kWarpgroup] = second[i];
  }
  sync_named(1, P::kGroups * kWarpgroup);
#pragma unroll
  for (int i = 0; i < P::W / 2 && group == 0; ++i) {
    first[i] += sums[2 * i * kWarpgroup];
    second[i] += sums[(2 * i + 1) * kWarpgroup];
  }
}

// For rows own_row and own_row + 8 of a thread: log-sum-exp in powers of two, delta and the first
// visible key, if they are queries.
struct OwnQueries {
  float lse[2] = {}, delta[2] = {};
  int start[2] = {INT_MAX, INT_MAX};
  // Of the warpgroup's first query, and of the warp's last.
  int group_start = 0, last_start = 0;
};

template <class T>
__device__ __forceinline__ OwnQueries own_queries(const AttentionHeads<T>& in,
                                                  const AttentionGradient<T, float>& gradient,
                                                  const BackwardWalk& walk, int own_row) {
  OwnQueries own;
  const std::int32_t* const starts = in.starts(walk.batch);
  for (int r = 0; r < 2; ++r) {
    const int query = own_row + 8 * r;
    if (query >= in.seq) continue;
    const int from = (walk.batch * in.seq + query) * in.heads + walk.head;
    own.lse[r] = gradient.lse[from] * kLog2E;
    own.delta[r] = gradient.delta[from];
    own.start[r] = starts[query];
  }
  own.group_start = starts[min(own_row & -64, in.seq - 1)];
  own.last_start = starts[min((own_row & -kWarpRows) + kWarpRows, in.seq) - 1];
  return own;
}

// Of a tile: the products with p and ds are under way while the next tile's scores are started, so
// that a warpgroup's products follow each other.
template <class P, class T>
__device__ __forceinline__ void multiply_tiles(BackwardShared<T, P>& shared,
                                               const AttentionHeads<T>& in,
                                               const AttentionGradient<T, float>& gradient,
                                               float scale) {
  constexpr int W = P::W, kRows = P::kRows;
  constexpr bool kOfKeys = P::kOfKeys;
  constexpr auto kOwnStep = static_cast<std::uint64_t>(sizeof shared.own[0] >> 4);
  constexpr auto kTileStep = static_cast<std::uint64_t>(sizeof shared.others[0][0] >> 4);
  const BackwardWalk& walk = shared.walk;
  // From one lane, as the stage below: the compiler then knows that it is the same in all, and
  // keeps descriptors in uniform registers.
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const int group_at = P::kSharesKeys ? 0 : 64 * group;
  const int kept_row =
      walk.first_own + group_at + static_cast<int>(threadIdx.x) / 32 % 4 * kWarpRows + lane / 4;
  OwnQueries own;
  if constexpr (!kOfKeys) own = own_queries(in, gradient, walk, kept_row);

  float first_sum[W / 2] = {};
  float second_sum[kOfKeys ? W / 2 : 1] = {};
  float s[kRows / 2], d[kRows / 2];
  const std::uint64_t own_rows =
      along_rows(shared.own[0] + group_at / kRows * P::kTile + group_at % kRows * kSwizzledRow);
  const std::uint64_t rows = along_rows(shared.others[0][0]);
  const std::uint64_t columns = across_rows(shared.others[0][0], kRows * 128);
  Stage<P::kStages> at;
  // The stage that the products with p and ds under way read.
  int held = -1;
  const auto release = [&](int stage) {
    __syncwarp();
    if (t == 0 && computed_again(kept_row) % 8 == 0) arrive(shared.empty + stage);
  };
  const auto release_held = [&] {
    hold(first_sum);
    if constexpr (kOfKeys) hold(second_sum);
    if (held >= 0) release(held);
  };
  wait_phase(&shared.own_full, 0);
  walk.tiles<P>([&](int /*head*/, int first_other) {
    const int here = at.index;
    wait_phase(shared.full + here, at.parity);
    at.advance();
    const float2* const readers = shared.readers + here * kRows;
    const int* const starts = shared.starts + here * kRows;
    const std::uint64_t tile =
        static_cast<std::uint64_t>(__shfl_sync(0xffffffffu, here, 0)) * 2 * kTileStep;
    const int own_row = computed_again(kept_row);
    const int first_row = own_row & -kWarpRows, group_row = own_row & -64;
    bool unseen = kOfKeys ? first_other + kRows <= group_row || starts[0] >= group_row + 64
                          : first_other + kRows <= own.group_start || first_other >= group_row + 64;
    if constexpr (P::kSharesKeys) unseen = unseen || first_other / kRows % 2 != group;
    if (unseen) {
      wait_products<0>();
      release_held();
      held = -1;
      release(here);
      return;
    }
    fence_products();
    start_scores<T, W, kRows>(s, own_rows, rows + tile);
    wait_products<1>();
    release_held();
    held = here;
    fence_products();
    start_scores<T, W, kRows>(d, own_rows + kOwnStep, rows + tile + kTileStep);

    // Scores are not changed: that would be waited for.
    std::uint32_t p[kRows / 16][4], ds[kRows / 16][4];
    const auto soften = [&](auto masks) {
      const auto power = [&](int n, int e, int first, float below) {
        float score = s[4 * n + e];
        if constexpr (masks.value) {
          const int row = own_row + e / 2 * 8, other = first_other + 8 * n + 2 * t + e % 2;
          const int key = kOfKeys ? row : other, query = kOfKeys ? other : row;
          // Without a branch: both comparisons are made.
          const int hidden = static_cast<int>(key > query) | static_cast<int>(key < first);
          score = hidden != 0 ? -INFINITY : score;
        }
        return power_of_two(fmaf(score, scale, -below));
      };
      if constexpr (kOfKeys) {
        wait_products<0>();
        hold(s);
        hold(d);
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
          // Of two queries.
          const float4 reader = *reinterpret_cast<const float4*>(readers + 8 * n + 2 * t);
          int2 first{};
          if constexpr (masks.value) first = *reinterpret_cast<const int2*>(starts + 8 * n + 2 * t);
          float weights[4], gradients[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const bool even = e % 2 == 0;
            weights[e] = power(n, e, even ? first.x : first.y, even ? reader.x : reader.z);
            gradients[e] = weights[e] * (d[4 * n + e] - (even ? reader.y : reader.w));
          }
          pack_quad<T, kRows>(p, n, weights);
          pack_quad<T, kRows>(ds, n, gradients);
        }
      } else {
        wait_products<1>();
        hold(s);
        float weights[kRows / 2];
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            weights[4 * n + e] = power(n, e, own.start[e / 2], own.lse[e / 2]);
        }
        wait_products<0>();
        hold(d);
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
          float gradients[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            gradients[e] = weights[4 * n + e] * (d[4 * n + e] - own.delta[e / 2]);
          pack_quad<T, kRows>(ds, n, gradients);
        }
      }
    };
    // Whether some query here may not see some key; starts never decrease.
    if (kOfKeys ? first_other < first_row + kWarpRows - 1 || starts[kRows - 1] > first_row
                : first_other + kRows - 1 > first_row || first_other < own.last_start) {
      soften(std::true_type{});
    } else {
      soften(std::false_type{});
    }
    fence_products();
    if constexpr (kOfKeys) start_mix<T, W, kRows>(second_sum, p, columns + tile + kTileStep);
    start_mix<T, W, kRows>(first_sum, ds, columns + tile);
    commit_products();
  });
  wait_products<0>();
  release_held();

  if constexpr (P::kSharesKeys) {
    add_groups(shared, group, first_sum, second_sum);
    if (group != 0) return;
  }
  const int head = kOfKeys ? in.heads + walk.kv_head : walk.head;
  const int first_row = kept_row & -kWarpRows;
  store_sums<W>(in.of_all(gradient.dqkv, walk.batch, head), first_sum, static_cast<float>(in.scale),
                first_row);
  if constexpr (kOfKeys) {
    store_sums<W>(in.of_all(gradient.dqkv, walk.batch, head + in.kv_heads), second_sum, 1,
                  first_row);
  }
}

}  // namespace trireme::ops::cuda
