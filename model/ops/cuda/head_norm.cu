#include "model/ops/head_norm.h"

#include <algorithm>
#include <bit>

#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/column_sums.h"
#include "model/ops/cuda/norm_row.cuh"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::dynamic_shared;
using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// A team per head, of as many lanes of a warp as the head has packs.
constexpr int kThreads = 256;
constexpr int kHeadsAtOnce = 4;  // of a team, in the backward; two in the forward

struct HeadShape {
  int heads, kv_heads, width;
  __host__ __device__ int normed() const { return heads + kv_heads; }
  __host__ __device__ std::int64_t stride() const {
    return static_cast<std::int64_t>(normed() + kv_heads) * width;
  }
};

template <class T>
struct HeadNormTokens {
  T* y;
  Sum<T>* inverse;
  const T *x, *query_gain, *key_gain;
  Sum<T> epsilon, gain_offset;
  HeadShape shape;
};

// Blocks process the first `heads` heads of each token, two per team; values are copied.
template <int n, class T>
__global__ __launch_bounds__(kThreads) void head_norm_kernel(HeadNormTokens<T> op, int tokens,
                                                             int heads) {
  using A = Sum<T>;
  const HeadShape shape = op.shape;
  const int teams = static_cast<int>(blockDim.y);
  Team<A> team{nullptr, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const int first = static_cast<int>(blockIdx.x * 2 * blockDim.y + threadIdx.y);
  const int items = tokens * heads;
  // All lanes of a warp take part in sums: a team without a head repeats the last one.
  const auto token_of = [&](int j) { return min(first + j * teams, items - 1) / heads; };
  const int token[2] = {token_of(0), token_of(1)};
  const auto head_of = [&](int j) { return min(first + j * teams, items - 1) - token[j] * heads; };
  const int head[2] = {head_of(0), head_of(1)};
  const auto start_of = [&](int j) { return token[j] * shape.stride() + head[j] * shape.width; };
  const HeldRow<1, n, T> rows[2] = {{op.x + start_of(0), shape.width, team},
                                    {op.x + start_of(1), shape.width, team}};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const auto found = statistics<NormKind::kRmsNorm>(rows[j], op.epsilon, team);
    if (first + j * teams >= items) continue;
    T* const y = op.y + start_of(j);
    if (head[j] >= shape.normed()) {
      rows[j].each([&](const A(&v)[n], int i) { store(y + i, v); });
      continue;
    }
    if (team.lane == 0) op.inverse[token[j] * shape.normed() + head[j]] = found.inverse;
    const T* gain = head[j] < shape.heads ? op.query_gain : op.key_gain;
    apply<NormKind::kRmsNorm, false, 1, n, T>(y, rows[j], gain, op.gain_offset, nullptr, found);
  }
}

template <class T>
struct HeadNormBackwardTokens {
  T* dqkv;
  Sum<T>* dgains;  // [chunks, 2 width]
  const T *x, *query_gain, *key_gain;
  const Sum<T>* inverse;
  Sum<T> gain_offset;
  std::int64_t tokens;
  HeadShape shape;
};

// A block processes the queries of a chunk of tokens, then its keys. Teams sum the gradients of the
// gain in their own shared memory.
template <int n, class T>
__global__ __launch_bounds__(kThreads,
                             2) void head_norm_backward_kernel(HeadNormBackwardTokens<T> op) {
  using A = Sum<T>;
  using Sums = ColumnSums<n, A>;
  struct Inputs {
    std::int64_t start;  // of the head
    A inverse;
    Pack<T, n> dy, x;
  };
  const HeadShape shape = op.shape;
  const int lanes = static_cast<int>(blockDim.x), teams = static_cast<int>(blockDim.y);
  const int team = static_cast<int>(threadIdx.y), thread = team * lanes + threadIdx.x;
  const int column = static_cast<int>(threadIdx.x) * n;
  Team<A> lane_team{nullptr, static_cast<int>(threadIdx.x), lanes};
  A* const room = trireme::cuda::dynamic_shared<A>();  // [teams, width]
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kCudaRowChunk;
  const int tokens = static_cast<int>(min(std::int64_t{kCudaRowChunk}, op.tokens - first));
  for (const bool query : {true, false}) {
    const int heads = query ? shape.heads : shape.kv_heads, items = tokens * heads;
    const T* const gain = query ? op.query_gain : op.key_gain;
    for (int i = thread; i < teams * shape.width; i += teams * lanes) room[i] = 0;
    __syncthreads();
    const auto fetch = [&](Inputs& to, int i) {
      to.dy = pack_at<n>(op.dqkv + to.start + i);
      to.x = pack_at<n>(op.x + to.start + i);
    };
    for (int base = 0; base < items; base += kHeadsAtOnce * teams) {
      Inputs in[kHeadsAtOnce];
#pragma unroll
      for (int j = 0; j < kHeadsAtOnce; ++j) {
        // All lanes of a warp take part in sums: a team without a head repeats the last one.
        const int item = min(base + j * teams + team, items - 1);
        const std::int64_t token = first + item / heads;
        const int head = item % heads + (query ? 0 : shape.heads);
        in[j].start = token * shape.stride() + head * shape.width;
        in[j].inverse = op.inverse[token * shape.normed() + head];
        if (column < shape.width) fetch(in[j], column);
      }
#pragma unroll
      for (int j = 0; j < kHeadsAtOnce; ++j) {
        const bool is_head = base + j * teams + team < items;
        const Statistics<A> row{0, in[j].inverse};
        Slopes<A> means{0, 0};
        for (int i = column; i < shape.width; i += lanes * n) {
          if (i > column) fetch(in[j], i);
          add_slopes<NormKind::kRmsNorm>(means, in[j].dy, in[j].x, pack_at<n>(gain + i),
                                         op.gain_offset, row);
        }
        means.product = lane_team.sum(means.product) / static_cast<A>(shape.width);
        for (int i = column; is_head && i < shape.width; i += lanes * n) {
          if (lanes * n < shape.width) fetch(in[j], i);
          A v[n], d[n];
          widen(v, in[j].x);
          widen(d, in[j].dy);
          center_and_scale<NormKind::kRmsNorm>(v, row);
          const Sums sums{reinterpret_cast<typename Sums::P*>(room + team * shape.width + i), 1};
          sums.update([&](int k, A sum) { return fma(d[k], v[k], sum); });
          row_backward<NormKind::kRmsNorm>(d, v, pack_at<n>(gain + i), op.gain_offset, row, means);
          store(op.dqkv + in[j].start + i, d);
        }
      }
    }
    __syncthreads();
    for (int i = thread; i < shape.width; i += teams * lanes) {
      A sum = 0;
      for (int other = 0; other < teams; ++other) sum += room[other * shape.width + i];
      const std::int64_t at = 2 * blockIdx.x + (query ? 0 : 1);
      op.dgains[at * shape.width + i] = sum;
    }
    __syncthreads();
  }
}

// Teams for heads of so many packs.
dim3 block_of(std::int64_t packs) {
  const auto lanes = std::min<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs)), 32);
  return {extent(lanes), extent(kThreads / lanes)};
}

HeadShape shape_of(const Heads& heads) {
  return {static_cast<int>(heads.heads), static_cast<int>(heads.kv_heads),
          static_cast<int>(heads.width)};
}

}  // namespace

void head_norm(Stream& stream, const HeadNorm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const HeadShape shape = shape_of(op.heads);
    const HeadNormTokens<T> tokens{.y = at<T>(op.y),
                                   .inverse = at<Sum<T>>(op.inv_rms),
                                   .x = at<T>(op.x),
                                   .query_gain = at<T>(op.query_gain),
                                   .key_gain = at<T>(op.key_gain),
                                   .epsilon = static_cast<Sum<T>>(op.epsilon),
                                   .gain_offset = static_cast<Sum<T>>(op.gain_offset),
                                   .shape = shape};
    const bool in_place = op.y.data == op.x.data;
    const std::int64_t heads = shape.normed() + (in_place ? 0 : shape.kv_heads);
    const auto run = [&]<int n>(Count<n>) {
      const dim3 block = block_of(shape.width / n);
      const std::int64_t items = extent(op.x.rows() * heads);
      launch(head_norm_kernel<n, T>, extent(parts(items, 2 * block.y)), block, 0, stream, tokens,
             static_cast<int>(op.x.rows()), static_cast<int>(heads));
    };
    with_packs<T>(op.heads.width, run, op.y, op.x, op.query_gain, op.key_gain);
  });
}

void head_norm_backward(Stream& stream, Tensor partial, const HeadNormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const HeadNormBackwardTokens<T> tokens{.dqkv = at<T>(op.dqkv),
                                           .dgains = at<Sum<T>>(partial),
                                           .x = at<T>(op.x),
                                           .query_gain = at<T>(op.query_gain),
                                           .key_gain = at<T>(op.key_gain),
                                           .inverse = at<Sum<T>>(op.inv_rms),
                                           .gain_offset = static_cast<Sum<T>>(op.gain_offset),
                                           .tokens = op.x.rows(),
                                           .shape = shape_of(op.heads)};
    const auto run = [&]<int n>(Count<n>) {
      const dim3 block = block_of(op.heads.width / n);
      launch(head_norm_backward_kernel<n, T>, extent(row_chunks(op.x.rows(), stream.device())),
             block, block.y * static_cast<std::size_t>(op.heads.width) * sizeof(Sum<T>), stream,
             tokens);
    };
    with_packs<T>(op.heads.width, run, op.dqkv, op.x, op.query_gain, op.key_gain);
  });
  column_sums(stream, op.dquery_gain, partial, op.accumulate);
  column_sums(stream, op.dkey_gain, partial, op.accumulate, op.heads.width);
}

}  // namespace trireme::ops::cuda
