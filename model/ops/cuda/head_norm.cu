#include "model/ops/head_norm.h"

#include <algorithm>

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

// One warp per head, with packs small enough that every lane has one.
constexpr int kPackBytes = 8;
constexpr int kWarps = 8;

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
  Sum<T> epsilon;
  HeadShape shape;
};

// Block (token, j) processes the token's heads from j kWarps on, one warp each; values are copied.
template <int n, class T>
__global__ void head_norm_kernel(HeadNormTokens<T> op, int last_head) {
  using A = Sum<T>;
  const HeadShape shape = op.shape;
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * kWarps + threadIdx.y);
  if (head >= last_head) return;
  Team<A> team{nullptr, static_cast<int>(threadIdx.x), 32};
  const std::int64_t start = token * shape.stride() + static_cast<std::int64_t>(head) * shape.width;
  if (head >= shape.normed()) {
    for (int i = team.lane * n; i < shape.width; i += 32 * n) {
      A v[n];
      load(v, op.x + start + i);
      store(op.y + start + i, v);
    }
    return;
  }
  const auto found = statistics<NormKind::kRmsNorm, n>(op.x + start, shape.width, op.epsilon, team);
  if (team.lane == 0) op.inverse[token * shape.normed() + head] = found.inverse;
  const T* gain = head < shape.heads ? op.query_gain : op.key_gain;
  apply<NormKind::kRmsNorm, n, T>(op.y + start, op.x + start, gain, nullptr, shape.width, found,
                                  team);
}

template <class T>
struct HeadNormBackwardTokens {
  T* dqkv;
  Sum<T>* dgains;  // [chunks, 2 width]
  const T *x, *query_gain, *key_gain;
  const Sum<T>* inverse;
  std::int64_t tokens;
  HeadShape shape;
};

// A block processes a chunk of tokens, each warp every n-th of its heads. A warp sums the gradients
// of the gains in its own shared memory, the query's and then the key's.
template <int n, class T>
__global__ __launch_bounds__(1024, 1) void head_norm_backward_kernel(HeadNormBackwardTokens<T> op) {
  using A = Sum<T>;
  const HeadShape shape = op.shape;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int warps = static_cast<int>(blockDim.y), gains = 2 * shape.width;
  A* const all = dynamic_shared<A>();
  A* const mine = all + warp * gains;
  for (int i = lane; i < gains; i += 32) mine[i] = 0;
  __syncwarp();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kCudaRowChunk;
  const int tokens = static_cast<int>(min(std::int64_t{kCudaRowChunk}, op.tokens - first));
  for (int item = warp; item < tokens * shape.normed(); item += warps) {
    const std::int64_t token = first + item / shape.normed();
    const int head = item % shape.normed();
    const bool query = head < shape.heads;
    const std::int64_t start =
        token * shape.stride() + static_cast<std::int64_t>(head) * shape.width;
    const T* gain = query ? op.query_gain : op.key_gain;
    const Statistics<A> row{0, op.inverse[token * shape.normed() + head]};
    Slopes<A> means = slopes<NormKind::kRmsNorm, n>(op.dqkv + start, op.x + start, gain,
                                                    shape.width, row, lane, 32);
    means.product = warp_sum(means.product) / static_cast<A>(shape.width);
    A* const to = query ? mine : mine + shape.width;
    for (int i = lane * n; i < shape.width; i += 32 * n) {
      A g[n], dgain[n], dbias[n];
      load(g, gain + i);
      load(dgain, to + i);
      row_backward<NormKind::kRmsNorm, n, T>(op.dqkv + start + i, dgain, dbias, op.dqkv + start + i,
                                             op.x + start + i, g, nullptr, row, means);
      store(to + i, dgain);
    }
  }
  __syncthreads();
  for (int i = warp * 32 + lane; i < gains; i += warps * 32) {
    A sum = 0;
    for (int k = 0; k < warps; ++k) sum += all[k * gains + i];
    op.dgains[blockIdx.x * static_cast<std::int64_t>(gains) + i] = sum;
  }
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
                                   .shape = shape};
    const bool in_place = op.y.data == op.x.data;
    const int last_head = shape.normed() + (in_place ? 0 : shape.kv_heads);
    const auto run = [&]<int n>(Count<n>) {
      launch(head_norm_kernel<n, T>, dim3(extent(op.x.rows()), extent(parts(last_head, kWarps))),
             dim3(32, kWarps), 0, stream, tokens, last_head);
    };
    with_packs<T, kPackBytes>(op.heads.width, run, op.y, op.x, op.query_gain, op.key_gain);
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
                                           .tokens = op.x.rows(),
                                           .shape = shape_of(op.heads)};
    // As many warps as fit, so that the order depends only on the heads' width.
    constexpr std::int64_t kRoom = std::int64_t{48} << 10;
    const std::int64_t room = 2 * op.heads.width * static_cast<std::int64_t>(sizeof(Sum<T>));
    const std::int64_t warps = std::clamp<std::int64_t>(kRoom / room, 1, 32);
    const auto run = [&]<int n>(Count<n>) {
      launch(head_norm_backward_kernel<n, T>, extent(row_chunks(op.x.rows(), stream.device())),
             dim3(32, extent(warps)), static_cast<std::size_t>(warps * room), stream, tokens);
    };
    with_packs<T, kPackBytes>(op.heads.width, run, op.dqkv, op.x, op.query_gain, op.key_gain);
  });
  column_sums(stream, op.dquery_gain, partial, op.accumulate);
  column_sums(stream, op.dkey_gain, partial, op.accumulate, op.heads.width);
}

}  // namespace trireme::ops::cuda
