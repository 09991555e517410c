#include <algorithm>
#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/attention.h"
#include "model/ops/cuda/attention_cached.cuh"
#include "model/ops/cuda/attention_kernels.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// Keys that a thread loads at once.
template <class T, int kQueries>
constexpr int kKeysAtOnce = sizeof(T) != 2  ? 2
                            : kQueries == 1 ? 8
                                            : 4;

template <class T>
struct Cache {
  using A = Accumulator<T>;
  T *keys = nullptr, *values = nullptr;  // [capacity, kv_heads width]
  const T* qkv = nullptr;                // [tokens, (heads + 2 kv_heads) width]
  const T* sinks = nullptr;              // [heads], or null
  T* out = nullptr;                      // [tokens, heads width]
  A* partials = nullptr;                 // [tokens, heads, splits, width + 2]; null: one split
  std::int64_t first = 0;                // token in the sequence, which is at row first % capacity
  std::int64_t capacity = 0, window = 0;
  std::int64_t split_keys = 0;  // of a split
  int tokens = 0, heads = 0, kv_heads = 0, width = 0, splits = 1;
  double scale = 1;
  A cap = 0, inverse_cap = 0;  // as in AttentionHeads

  // A split's weighted values, their largest score and the sum of weights.
  __device__ A* partial(int token, int head, int split) const {
    return partials + ((std::int64_t{token} * heads + head) * splits + split) * (width + 2);
  }
  // The weight of a head's sink where keys have weights 2^(score - top).
  __device__ A sink_weight(int head, A top) const {
    if (sinks == nullptr) return 0;
    return std::exp2(widened(sinks[head]) * static_cast<A>(1.4426950408889634) - top);
  }
};

template <class T>
__global__ __launch_bounds__(kThreads) void append_to_cache(const Cache<T> cache) {
  const std::int64_t width = std::int64_t{cache.kv_heads} * cache.width;
  const std::int64_t row = std::int64_t{cache.heads} * cache.width + 2 * width;
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= cache.tokens * width) return;
  const std::int64_t token = i / width, column = i % width;
  const T* const key = cache.qkv + token * row + cache.heads * cache.width + column;
  const std::int64_t to = (cache.first + token) % cache.capacity * width + column;
  cache.keys[to] = key[0];
  cache.values[to] = key[width];
}

// kQueries heads of a group of one token, over the keys of a split.
template <class T, int W, int kQueries, bool kAligned>
__global__ __launch_bounds__(kThreads, 2) void cached_queries(const Cache<T> cache) {
  using A = Accumulator<T>;
  using Row = Share<T, W>;
  constexpr int kValues = Row::kValues, kLanes = Row::kLanes, kGroups = kThreads / kLanes;
  constexpr int kKeys = kKeysAtOnce<T, kQueries>, kStep = kGroups * kKeys;
  static_assert(kTile % kStep == 0);
  __shared__ Softmax<A, kQueries> softmax;
  __shared__ Vector<A, kQueries> query[kValues][kLanes];
  __shared__ A sums[kWarps][kQueries][W];
  const int thread = static_cast<int>(threadIdx.x), lane_group = thread / kLanes;
  const int token = static_cast<int>(blockIdx.x), group = cache.heads / cache.kv_heads;
  const int chunks = (group + kQueries - 1) / kQueries;
  const int kv_head = static_cast<int>(blockIdx.y) / chunks;
  const int in_group = static_cast<int>(blockIdx.y) % chunks * kQueries;
  const int split = static_cast<int>(blockIdx.z), heads = min(kQueries, group - in_group);
  const int first_head = kv_head * group + in_group;
  const std::int64_t stride = std::int64_t{cache.kv_heads} * cache.width;
  const T* const queries =
      cache.qkv + token * (cache.heads * std::int64_t{cache.width} + 2 * stride);
  const std::int64_t end_seen = cache.first + token + 1;
  const std::int64_t first_seen =
      cache.window > 0 ? max(end_seen - cache.window, std::int64_t{0}) : 0;
  const std::int64_t begin = first_seen + split * cache.split_keys;
  const std::int64_t end = min(begin + cache.split_keys, end_seen);
  if (lane_group < kQueries) {
    Row row;
    row.template load<kAligned>(queries + (first_head + min(lane_group, heads - 1)) * cache.width,
                                cache.width);
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      query[i][thread % kLanes].x[lane_group] = Row::column(i) < cache.width ? row[i] : A(0);
  }
  __syncthreads();
  A values[kQueries][kValues] = {};
  std::int64_t cached_row = begin % cache.capacity;
  for (std::int64_t tile = begin; tile < end;) {
    // A tile ends where the ring does.
    const int count =
        static_cast<int>(min(min(end - tile, cache.capacity - cached_row), std::int64_t{kTile}));
    const std::int64_t from = cached_row * stride + kv_head * cache.width;
    for (int first = lane_group; first - lane_group < count; first += kStep) {
      Row rows[kKeys];
#pragma unroll
      for (int k = 0; k < kKeys; ++k)
        rows[k].template load<kAligned>(
            cache.keys + from + min(first + k * kGroups, count - 1) * stride, cache.width);
      A scores[kKeys][kQueries] = {};
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        A values_of_queries[kQueries];
#pragma unroll
        for (int q = 0; q < kQueries; ++q) values_of_queries[q] = query[i][thread % kLanes].x[q];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
          const A key = rows[k][i];
#pragma unroll
          for (int q = 0; q < kQueries; ++q)
            scores[k][q] = std::fma(values_of_queries[q], key, scores[k][q]);
        }
      }
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        sum_queries<kLanes>(scores[k]);
        const int at = first + k * kGroups;
        if (cache.cap > 0)
          scores[k][0] = cache.cap * hyperbolic_tangent<T>(scores[k][0] * cache.inverse_cap);
        if (thread % (kLanes / kQueries) == 0 && at < count)
          softmax.weights[at].x[owned_query<kLanes, kQueries>()] =
              scores[k][0] * static_cast<A>(cache.scale * 1.4426950408889634);
      }
    }
    __syncthreads();
    softmax.weigh(count, (count + kStep - 1) / kStep * kStep, tile == begin);
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const A factor = softmax.factor[q];
#pragma unroll
      for (int i = 0; i < kValues; ++i) values[q][i] *= factor;
    }
    for (int first = lane_group; first < count; first += kStep) {
      Row rows[kKeys];
#pragma unroll
      for (int k = 0; k < kKeys; ++k)
        rows[k].template load<kAligned>(
            cache.values + from + min(first + k * kGroups, count - 1) * stride, cache.width);
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        const auto weights = softmax.weights[first + k * kGroups];
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
          const A value = rows[k][i];
#pragma unroll
          for (int q = 0; q < kQueries; ++q)
            values[q][i] = std::fma(weights.x[q], value, values[q][i]);
        }
      }
    }
    __syncthreads();
    tile += count;
    cached_row = cached_row + count == cache.capacity ? 0 : cached_row + count;
  }
#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
#pragma unroll
      for (int apart = kLanes; apart < 32; apart *= 2)
        values[q][i] += __shfl_xor_sync(0xffffffffu, values[q][i], apart);
      if (thread % 32 < kLanes) sums[thread / 32][q][Row::column(i)] = values[q][i];
    }
  }
  __syncthreads();
  for (int i = thread; i < heads * W; i += kThreads) {
    const int q = i / W, column = i % W;
    if (column >= cache.width) continue;
    A value = 0;
    for (int w = 0; w < kWarps; ++w) value += sums[w][q][column];
    if (cache.partials == nullptr) {
      cache.out[(std::int64_t{token} * cache.heads + first_head + q) * cache.width + column] =
          rounded<T>(value / (softmax.sum[q] + cache.sink_weight(first_head + q, softmax.top[q])));
      continue;
    }
    const bool has_keys = begin < end;
    A* const to = cache.partial(token, first_head + q, split);
    to[column] = value;
    if (column == 0) {
      to[cache.width] = has_keys ? softmax.top[q] : static_cast<A>(-INFINITY);
      to[cache.width + 1] = has_keys ? softmax.sum[q] : A(0);
    }
  }
}

// Merges the splits of one query of one head in order.
template <class T>
__global__ __launch_bounds__(kThreads) void merge_splits(const Cache<T> cache) {
  using A = Accumulator<T>;
  __shared__ A weights[kThreads];
  const int thread = static_cast<int>(threadIdx.x), width = cache.width;
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const A* const parts = cache.partial(token, head, 0);
  const bool has_split = thread < cache.splits;
  const A* const mine = parts + (has_split ? thread : 0) * (width + 2) + width;
  const A top = has_split ? mine[0] : static_cast<A>(-INFINITY), sum = has_split ? mine[1] : A(0);
  const A all = over_block<kThreads>(top, [](A a, A b) { return max(a, b); });
  weights[thread] = std::exp2(top - all);
  const A total = over_block<kThreads>(sum * weights[thread], [](A a, A b) { return a + b; });
  if (thread >= width) return;
  A value = 0;
#pragma unroll 16
  for (int split = 0; split < cache.splits; ++split)
    value = std::fma(weights[split], parts[split * (width + 2) + thread], value);
  cache.out[(std::int64_t{token} * cache.heads + head) * width + thread] =
      rounded<T>(value / (total + cache.sink_weight(head, all)));
}

}  // namespace

void attention_cached(Stream& stream, Tensor workspace, const CachedAttention& how) {
  const Heads& heads = how.heads;
  const Tensor &qkv = how.qkv, &keys = how.keys, &values = how.values;
  if (qkv.rows() == 0) return;
  const std::int64_t width = heads.width, count = qkv.rows() * heads.kv_heads * width;
  const std::int64_t splits = std::max<std::int64_t>(workspace.shape[2], 1);
  require_width(heads);
  with_float(qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Cache<T> cache{
        .keys = keys.as<T>(),
        .values = values.as<T>(),
        .qkv = qkv.as<T>(),
        .sinks = at<T>(how.sinks),
        .out = how.out.as<T>(),
        .partials = splits > 1 ? workspace.as<A>() : nullptr,
        .first = how.first,
        .capacity = keys.rows(),
        .window = how.window,
        .split_keys = parts(how.seen(), splits),
        .tokens = static_cast<int>(qkv.rows()),
        .heads = static_cast<int>(heads.heads),
        .kv_heads = static_cast<int>(heads.kv_heads),
        .width = static_cast<int>(width),
        .splits = static_cast<int>(splits),
        .scale = how.scale,
        .cap = static_cast<A>(how.soft_cap / how.scale),
        .inverse_cap = static_cast<A>(how.soft_cap > 0 ? how.scale / how.soft_cap : 0)};
    const bool is_aligned =
        in_vectors(qkv, width) && in_vectors(keys, width) && in_vectors(values, width);
    const auto run = [&](auto kernel, std::int64_t queries) {
      const std::int64_t chunks = parts(heads.heads / heads.kv_heads, queries);
      const dim3 grid(extent(cache.tokens), extent(heads.kv_heads * chunks), extent(splits));
      launch(kernel, grid, kThreads, 0, stream, cache);
    };
    launch(append_to_cache<T>, extent(parts(count, kThreads)), kThreads, 0, stream, cache);
    with_padded_width(cache.width, [&]<int W>() {
      if (!is_aligned) return run(cached_queries<T, W, 1, false>, 1);
      if constexpr (sizeof(T) == 2) {
        if (heads.heads > heads.kv_heads) return run(cached_queries<T, W, 4, true>, 4);
      }
      run(cached_queries<T, W, 1, true>, 1);
    });
    const dim3 grid(extent(cache.tokens), extent(cache.heads));
    if (splits > 1) launch(merge_splits<T>, grid, kThreads, 0, stream, cache);
  });
}

}  // namespace trireme::ops::cuda
