#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/attention.h"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <class T>
struct Cache {
  T *keys = nullptr, *values = nullptr;  // [capacity, kv_heads width]
  const T* qkv = nullptr;                // [tokens, (heads + 2 kv_heads) width]
  T* out = nullptr;                      // [tokens, heads width]
  std::int64_t first = 0;                // row of the first token
  int tokens = 0, heads = 0, kv_heads = 0, width = 0;
  double scale = 1;
  bool vectors = false;
};

template <class T>
__global__ __launch_bounds__(kThreads) void append_to_cache(const Cache<T> cache) {
  const std::int64_t width = std::int64_t{cache.kv_heads} * cache.width;
  const std::int64_t row = std::int64_t{cache.heads} * cache.width + 2 * width;
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= cache.tokens * width) return;
  const T* const key = cache.qkv + i / width * row + cache.heads * cache.width + i % width;
  cache.keys[cache.first * width + i] = key[0];
  cache.values[cache.first * width + i] = key[width];
}

// A thread's part of a row, which is distributed over several adjacent threads.
template <class T, int W>
struct Share {
  static constexpr int kKeyThreads = W * sizeof(T) <= 1024 ? 8 : 16;
  static constexpr int kVectors = W / (Vector<T>::kLength * kKeyThreads);
  Vector<T> part[kVectors];

  __device__ void load(const T* row, int width, bool vectors) {
    constexpr int kLength = Vector<T>::kLength;
    const int lane = static_cast<int>(threadIdx.x) % kKeyThreads;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (lane + kKeyThreads * i) * kLength;
      part[i] = load_vector(row + column, width - column, vectors);
    }
  }
};

// The softmax over some keys of one query, with this thread's part of the weighted values.
template <class T, int W>
struct Mixed {
  using A = Accumulator<T>;
  static constexpr int kValues = Share<T, W>::kVectors * Vector<T>::kLength;
  A top = static_cast<A>(-INFINITY), sum = 0;
  A values[kValues] = {};

  // Merges two sets of keys; `other` returns the other's i-th value.
  template <class Other>
  __device__ __forceinline__ void join(A other_top, A other_sum, const Other& other) {
    const A now = max(top, other_top);
    const A base = now == static_cast<A>(-INFINITY) ? A(0) : now;
    const A mine = std::exp(top - base), theirs = std::exp(other_top - base);
    sum = sum * mine + other_sum * theirs;
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = values[i] * mine + other(i) * theirs;
    top = now;
  }
};

// One query of one head. Groups of a few threads process every 32nd or 16th key with separate
// softmaxes, which are then merged in a fixed order.
template <class T, int W>
__global__ __launch_bounds__(kThreads) void cached_query(const Cache<T> cache) {
  using A = Accumulator<T>;
  using M = Mixed<T, W>;
  constexpr int kLength = Vector<T>::kLength, kKeyThreads = Share<T, W>::kKeyThreads;
  constexpr int kKeys = kThreads / kKeyThreads;
  __shared__ A tops[kWarps], sums[kWarps], values[kWarps][kKeyThreads * M::kValues];
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kKeyThreads;
  const std::int64_t stride = std::int64_t{cache.kv_heads} * cache.width;
  const std::int64_t seen = cache.first + token + 1;
  const std::int64_t column = std::int64_t{head / (cache.heads / cache.kv_heads)} * cache.width;
  Share<T, W> query, row;
  query.load(cache.qkv + token * (cache.heads * std::int64_t{cache.width} + 2 * stride) +
                 head * cache.width,
             cache.width, cache.vectors);
  M mixed;
  for (std::int64_t first = 0; first < seen; first += kKeys) {
    const std::int64_t key = first + thread / kKeyThreads;
    const std::int64_t at = min(key, seen - 1) * stride + column;
    row.load(cache.keys + at, cache.width, cache.vectors);
    A score = 0;
#pragma unroll
    for (int i = 0; i < M::kValues; ++i)
      score += widened(query.part[i / kLength].x[i % kLength]) *
               widened(row.part[i / kLength].x[i % kLength]);
    for (int apart = 1; apart < kKeyThreads; apart *= 2)
      score += __shfl_xor_sync(0xffffffffu, score, apart);
    if (key >= seen) continue;
    row.load(cache.values + at, cache.width, cache.vectors);
    mixed.join(score * static_cast<A>(cache.scale), 1,
               [&](int i) { return widened(row.part[i / kLength].x[i % kLength]); });
  }
  for (int apart = kKeyThreads; apart < 32; apart *= 2) {
    const A top = __shfl_xor_sync(0xffffffffu, mixed.top, apart);
    const A sum = __shfl_xor_sync(0xffffffffu, mixed.sum, apart);
    mixed.join(top, sum,
               [&](int i) { return __shfl_xor_sync(0xffffffffu, mixed.values[i], apart); });
  }
  if (thread % 32 < kKeyThreads) {
    tops[thread / 32] = mixed.top;
    sums[thread / 32] = mixed.sum;
    for (int i = 0; i < M::kValues; ++i)
      values[thread / 32][lane * M::kValues + i] = mixed.values[i];
  }
  __syncthreads();
  if (thread >= kKeyThreads) return;
  for (int warp = 1; warp < kWarps; ++warp) {
    mixed.join(tops[warp], sums[warp], [&](int i) { return values[warp][lane * M::kValues + i]; });
  }
  T* const to = cache.out + (std::int64_t{token} * cache.heads + head) * cache.width;
  for (int i = 0; i < M::kValues; ++i) {
    const int to_column = (lane + kKeyThreads * (i / kLength)) * kLength + i % kLength;
    if (to_column < cache.width) to[to_column] = rounded<T>(mixed.values[i] / mixed.sum);
  }
}

}  // namespace

void attention_cached(Stream& stream, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads& heads, double scale) {
  if (qkv.rows() == 0) return;
  const std::int64_t width = heads.width, count = qkv.rows() * heads.kv_heads * width;
  require_width(heads);
  with_float(qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Cache<T> cache{
        .keys = keys.as<T>(),
        .values = values.as<T>(),
        .qkv = qkv.as<T>(),
        .out = out.as<T>(),
        .first = first,
        .tokens = static_cast<int>(qkv.rows()),
        .heads = static_cast<int>(heads.heads),
        .kv_heads = static_cast<int>(heads.kv_heads),
        .width = static_cast<int>(width),
        .scale = scale,
        .vectors = in_vectors(qkv, width) && in_vectors(keys, width) && in_vectors(values, width)};
    launch(append_to_cache<T>, extent(parts(count, kThreads)), kThreads, 0, stream, cache);
    with_padded_width(cache.width, [&]<int W>() {
      const dim3 grid(extent(cache.tokens), extent(cache.heads));
      launch(cached_query<T, W>, grid, kThreads, 0, stream, cache);
    });
  });
}

}  // namespace trireme::ops::cuda
