#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/attention_mma.cuh"

// Both passes over the tiles are one kernel. A block owns 64 rows, of queries or of keys, and loops
// over tiles of the other kind: scores s = own . other and d = own' . other', where the second
// tiles are dout for queries and values for keys. With p the probabilities and ds = p (d - delta),
// the first sum adds ds . other and, for keys, the second p . other'.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// The log-sum-exp is in powers of two.
template <class In>
using QueryOf = SeeingQuery<float, In::kIsPart>;

// Tile size of the other kind, and its distribution over warps: for wide heads the sums of a row
// group are on two warps, half the columns each.
template <class In, int W, bool kOfKeys>
struct Plan {
  using T = typename In::Element;
  static constexpr int kRows = W == 64 ? 64 : 32;
  static constexpr int kStages = W == 256 ? 1 : 2;
  static constexpr int kParts = kOfKeys && W == 256 ? 2 : 1;
  static constexpr int kThreads = 128 * kParts;
  // Own queries are loaded again for each tile, and each is masked: no registers are left to hold
  // what that takes.
  static constexpr bool kReloads = In::kIsPart && !kOfKeys && W == 256;
  static constexpr std::size_t kTiles =
      sizeof(T) * 2 * W * (kOwnRows + std::size_t{kStages} * kRows);
  static constexpr std::size_t kBytes =
      kTiles + (kOfKeys ? std::size_t{kStages} * kRows * sizeof(QueryOf<In>) : 0);
};

template <class In>
__device__ __forceinline__ QueryOf<In> load_query(const In& in, const GradientOf<In>& gradient,
                                                  int batch, int head, int query) {
  if (query >= in.seq) return {};
  const std::int64_t token = std::int64_t{batch} * in.seq + query;
  const std::int64_t at = token * in.heads + head;
  return QueryOf<In>::of(in, token, gradient.lse[at] * kLog2E, gradient.delta[at]);
}

template <class In, int W, bool kOfKeys, bool kDrops>
__global__ __launch_bounds__(Plan<In, W, kOfKeys>::kThreads) void attention_backward_mma(
    const In in, const GradientOf<In> gradient) {
  using T = typename In::Element;
  using P = Plan<In, W, kOfKeys>;
  constexpr int kRows = P::kRows, kTile = kRows * W, kColumns = W / P::kParts;
  T* const own_first = trireme::cuda::dynamic_shared<T>();
  T* const own_second = own_first + kOwnRows * W;
  T* const others = own_second + kOwnRows * W;  // [kStages, 2, kTile]
  auto* const readers = reinterpret_cast<QueryOf<In>*>(others + P::kStages * 2 * kTile);
  const int batch = static_cast<int>(blockIdx.z), y = static_cast<int>(blockIdx.y);
  const int group = in.group(), kv_head = kOfKeys ? y : y / group;
  // The blocks with most work first: early keys and late queries.
  const int tile = static_cast<int>(kOfKeys ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
  const int first_own = tile * kOwnRows;
  const int end_own = min(first_own + kOwnRows, kOfKeys ? in.key_count() : in.seq);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const int own = warp % 4 * kWarpRows, column = warp / 4 * kColumns;
  const int first_row = first_own + own;  // of this warp
  const float scale = static_cast<float>(in.scale) * kLog2E;

  const HeadRows<const T> k = in.keys(batch, kv_head), v = in.values(batch, kv_head);
  const RowRange range =
      kOfKeys ? in.readers(batch, first_own, end_own) : in.seen(batch, first_own, end_own);
  const int first_tile = range.first / kRows;
  const int tiles = (range.end + kRows - 1) / kRows - first_tile;
  const int items = kOfKeys ? tiles * group : tiles;

  const auto first_row_of = [&](int item) {
    return (first_tile + (kOfKeys ? item % tiles : item)) * kRows;
  };
  const auto load_item = [&](int item) {
    T* const to = others + item % P::kStages * 2 * kTile;
    const int first = first_row_of(item);
    if constexpr (kOfKeys) {
      const int head = kv_head * group + item / tiles;
      load_tile<kRows, W, P::kThreads>(to, in.queries(batch, head), first);
      load_tile<kRows, W, P::kThreads>(to + kTile, in.of_queries(gradient.dout, batch, head),
                                       first);
      for (int i = static_cast<int>(threadIdx.x); i < kRows; i += P::kThreads)
        readers[item % P::kStages * kRows + i] = load_query(in, gradient, batch, head, first + i);
    } else {
      load_tile<kRows, W, P::kThreads>(to, k, first);
      load_tile<kRows, W, P::kThreads>(to + kTile, v, first);
    }
    close_copies();
  };

  QueryOf<In> mine[2];
  // Of the warp's queries, the last one's first key and the first one's last.
  int last_start = 0, first_last = 0;
  const auto load_mine = [&] {
    for (int r = 0; r < 2; ++r) mine[r] = load_query(in, gradient, batch, y, first_row + g + 8 * r);
    last_start = in.starts(batch)[min(first_row + kWarpRows, in.seq) - 1];
    first_last = in.last_seen(batch, first_row);
  };
  if (In::kIsPart && items == 0) {
    // Copies would write to the own tiles, which hold the gradients in the end.
  } else if constexpr (kOfKeys) {
    load_tile<kOwnRows, W, P::kThreads>(own_first, k, first_own);
    load_tile<kOwnRows, W, P::kThreads>(own_second, v, first_own);
  } else {
    load_tile<kOwnRows, W, P::kThreads>(own_first, in.queries(batch, y), first_own);
    load_tile<kOwnRows, W, P::kThreads>(own_second, in.of_queries(gradient.dout, batch, y),
                                        first_own);
    if constexpr (!P::kReloads) load_mine();
  }
  if (!In::kIsPart || items > 0) load_item(0);

  float first_sum[kColumns / 8][4] = {};
  float second_sum[kOfKeys ? kColumns / 8 : 1][4] = {};
  for (int item = 0; item < items; ++item) {
    if (P::kStages == 2 && item + 1 < items) {
      load_item(item + 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    const T* const other_first = others + item % P::kStages * 2 * kTile;
    const T* const other_second = other_first + kTile;
    const QueryOf<In>* const reader = readers + item % P::kStages * kRows;
    const int first_other = first_row_of(item);
    float p[kRows / 8][4] = {}, ds[kRows / 8][4] = {};
#pragma unroll 4
    for (int i = 0; i < W / 16; ++i) {
      std::uint32_t a[4];
      load_left<W>(a, own_first, own, i);
      multiply_rows<kRows, W>(p, a, other_first, i);
      load_left<W>(a, own_second, own, i);
      multiply_rows<kRows, W>(ds, a, other_second, i);
    }
    if constexpr (P::kReloads) load_mine();
    // Whether some query here may not see some key; starts never decrease.
    const bool masked =
        P::kReloads || (kOfKeys ? reader[0].last(first_other) < first_row + kWarpRows - 1 ||
                                      reader[kRows - 1].start > first_row
                                : first_other + kRows - 1 > first_last || first_other < last_start);
    [[maybe_unused]] std::uint32_t kept = 0;
    if constexpr (kDrops) {
      const int head = kOfKeys ? kv_head * group + item / tiles : y;
      kept = kept_bits<kRows, kOfKeys>(in, batch, head, first_row, first_other);
    }
    const auto soften = [&](auto caps) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = first_row + g + e / 2 * 8, at = 8 * n + 2 * t + e % 2;
          const QueryOf<In> query = kOfKeys ? reader[at] : mine[e / 2];
          const int key = kOfKeys ? row : first_other + at, asks = kOfKeys ? first_other + at : row;
          const bool seen = !masked || (key <= query.last(asks) && key >= query.start);
          float score = p[n][e], slope = 1;
          if constexpr (caps.value) {
            const float tangent = hyperbolic_tangent<T>(score * in.inverse_cap);
            score = in.cap * tangent;
            slope = fmaf(-tangent, tangent, 1);
          }
          p[n][e] = seen ? power_of_two(fmaf(score, scale, -query.lse)) : 0.0f;
          if constexpr (kDrops) ds[n][e] = dropped(ds[n][e], in.kept, kept, n, e);
          ds[n][e] = seen ? p[n][e] * (ds[n][e] - query.delta) : 0.0f;
          if constexpr (kDrops) p[n][e] = dropped(p[n][e], in.kept, kept, n, e);
          if constexpr (caps.value) ds[n][e] *= slope;
        }
      }
    };
    if (in.cap > 0) {
      soften(std::true_type{});
    } else {
      soften(std::false_type{});
    }
    mix_rows<kRows, W, kColumns>(first_sum, ds, other_first, column);
    if constexpr (kOfKeys) mix_rows<kRows, W, kColumns>(second_sum, p, other_second, column);
    __syncthreads();
    if (P::kStages == 1 && item + 1 < items) load_item(item + 1);
  }

  // The own tiles are no longer read and are overwritten by the gradients.
  const float factor = static_cast<float>(in.scale);
  put_rows<W, kColumns>(own_first, own, column, first_sum, factor, factor);
  if constexpr (kOfKeys) put_rows<W, kColumns>(own_second, own, column, second_sum, 1, 1);
  __syncthreads();
  if (column != 0) return;
  if constexpr (kOfKeys) {
    store_rows<W>(in.key_gradient(gradient, batch, kv_head), own_first, own, first_row);
    store_rows<W>(in.value_gradient(gradient, batch, kv_head), own_second, own, first_row);
  } else {
    store_rows<W>(in.query_gradient(gradient, batch, y), own_first, own, first_row);
  }
}

template <int W, bool kOfKeys, class In>
void launch_walk(Stream& stream, int batch, const In& in, const GradientOf<In>& gradient) {
  using P = Plan<In, W, kOfKeys>;
  const int own_rows = kOfKeys ? in.key_count() : in.seq;
  const dim3 grid(extent(parts(own_rows, kOwnRows)), extent(kOfKeys ? in.kv_heads : in.heads),
                  extent(batch));
  launch(in.words ? attention_backward_mma<In, W, kOfKeys, true>
                  : attention_backward_mma<In, W, kOfKeys, false>,
         grid, P::kThreads, P::kBytes, stream, in, gradient);
}

template <class In>
void launch_of(Stream& stream, int batch, const In& in, const GradientOf<In>& gradient) {
  with_padded_width(in.width, [&]<int W>() {
    if (gradient.wants_keys()) launch_walk<W, true>(stream, batch, in, gradient);
    if (gradient.wants_queries()) launch_walk<W, false>(stream, batch, in, gradient);
  });
}

}  // namespace

void launch_attention_backward(Stream& stream, int batch, const HeadsWithDropout<Bf16>& in,
                               const AttentionGradient<Bf16, float>& gradient) {
  if (in.words || !launch_attention_backward_wgmma(stream, batch, in, gradient))
    launch_of(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const HeadsWithDropout<F16>& in,
                               const AttentionGradient<F16, float>& gradient) {
  if (in.words || !launch_attention_backward_wgmma(stream, batch, in, gradient))
    launch_of(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const PartHeads<Bf16>& in,
                               const PartGradient<Bf16, float>& gradient) {
  launch_of(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const PartHeads<F16>& in,
                               const PartGradient<F16, float>& gradient) {
  launch_of(stream, batch, in, gradient);
}

}  // namespace trireme::ops::cuda
