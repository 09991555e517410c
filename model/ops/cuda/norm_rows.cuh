#pragma once
// Included only by kernel sources. The kernels of the norms, forward and backward.
#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/norm_row.cuh"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cuda {

// [rows, width] each, or [rows], or [width]; see ops/norm.h. Null: absent.
template <class T>
struct NormRows {
  T* y;
  Sum<T>*mean, *inverse;
  T* sum;
  const T *x, *residual, *gain, *bias;
  std::int64_t rows, width;
  Sum<T> epsilon;
};

// A row's team is along x; a block of one-warp teams has several along y.
__device__ inline std::int64_t row_of_team() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <NormKind kind, int n, class T>
__global__ void norm_kernel(NormRows<T> op) {
  using A = Sum<T>;
  __shared__ A room[2][32];
  Team<A> team{room, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = row_of_team();
  if (row >= op.rows) return;  // exits a whole team; no thread of its block waits for it
  const std::int64_t start = row * op.width;
  const T* x = op.x + start;
  if (op.sum) {
    for (std::int64_t i = team.lane * n; i < op.width; i += team.lanes * n) {
      A a[n], b[n];
      load(a, x + i);
      load(b, op.residual + start + i);
#pragma unroll
      for (int k = 0; k < n; ++k) a[k] += b[k];
      store(op.sum + start + i, a);
    }
    x = op.sum + start;  // every lane reads only what it wrote itself
  }
  const Statistics<A> found = statistics<kind, n>(x, op.width, op.epsilon, team);
  if (team.lane == 0) {
    op.inverse[row] = found.inverse;
    if constexpr (kind == NormKind::kLayerNorm) op.mean[row] = found.mean;
  }
  apply<kind, n>(op.y + start, x, op.gain, op.bias, op.width, found, team);
}

template <NormKind kind, int n, class T>
__global__ void norm_recompute_kernel(NormRows<T> op) {
  using A = Sum<T>;
  const Team<A> team{nullptr, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = row_of_team();
  if (row >= op.rows) return;
  const std::int64_t start = row * op.width;
  const Statistics<A> found{kind == NormKind::kLayerNorm ? op.mean[row] : A(0), op.inverse[row]};
  apply<kind, n>(op.y + start, op.x + start, op.gain, op.bias, op.width, found, team);
}

template <class T>
struct NormBackwardRows {
  T* dx;
  Sum<T>*dgain, *dbias;  // per chunk of rows
  const T *dy, *x, *gain, *dresidual;
  const Sum<T>*mean, *inverse;
  std::int64_t rows, width;
};

template <int n, class A>
__device__ void add_to(A* to, A (&values)[n], bool fresh) {
  if (!fresh) {
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] += to[k];
  }
  store(to, values);
}

// A block processes one chunk of rows, a few rows at a time: two warps per row compute the row's
// sums, then each thread goes down the rows of its columns, which are in cache by then.
constexpr int kRowsAtOnce = 8;
constexpr int kRowsAhead = 2;  // whose loads are in flight together
constexpr int kBackwardThreads = 2 * 32 * kRowsAtOnce;

// Two blocks per multiprocessor, unless doubles use its registers.
template <class T>
constexpr int kBackwardBlocks = sizeof(T) == 8 ? 1 : 2;

template <NormKind kind, int n, class T>
__global__ __launch_bounds__(kBackwardThreads,
                             kBackwardBlocks<T>) void norm_backward_kernel(NormBackwardRows<T> op) {
  using A = Sum<T>;
  // Loads of 8 bytes leave registers for those of several rows.
  constexpr int m = n * sizeof(T) > 8 ? 8 / static_cast<int>(sizeof(T)) : n;
  __shared__ Slopes<A> shares[kRowsAtOnce][2];
  const int thread = static_cast<int>(threadIdx.x);
  const A share = A(1) / static_cast<A>(op.width);  // weight of an element in a mean
  const std::int64_t chunk = blockIdx.x, end = min(op.rows, (chunk + 1) * kCudaRowChunk);
  const auto statistics_of = [&](std::int64_t row) {
    return Statistics<A>{kind == NormKind::kLayerNorm ? op.mean[row] : A(0), op.inverse[row]};
  };
  for (std::int64_t first = chunk * kCudaRowChunk; first < end; first += kRowsAtOnce) {
    const std::int64_t row = first + thread / 64;
    if (row < end) {
      const std::int64_t start = row * op.width;
      Slopes<A> mine = slopes<kind, n>(op.dy + start, op.x + start, op.gain, op.width,
                                       statistics_of(row), thread % 64, 64);
      mine.product = warp_sum(mine.product);
      mine.shift = warp_sum(mine.shift);
      if (thread % 32 == 0) shares[thread / 64][thread / 32 % 2] = mine;
    }
    __syncthreads();
    const auto some = static_cast<int>(min(std::int64_t{kRowsAtOnce}, end - first));
    for (std::int64_t i = thread * m; i < op.width; i += kBackwardThreads * m) {
      A gain[m], dgain[m] = {}, dbias[m] = {};
      load(gain, op.gain + i);
      for (int k = 0; k < some; k += kRowsAhead) {
        // dx may be one of the inputs: the compiler cannot move a row's loads before another's
        // store.
        Pack<T, m> dy[kRowsAhead], x[kRowsAhead], also[kRowsAhead];
#pragma unroll
        for (int j = 0; j < kRowsAhead; ++j) {
          if (k + j >= some) continue;
          const std::int64_t from = (first + k + j) * op.width + i;
          dy[j] = *reinterpret_cast<const Pack<T, m>*>(op.dy + from);
          x[j] = *reinterpret_cast<const Pack<T, m>*>(op.x + from);
          if (op.dresidual) also[j] = *reinterpret_cast<const Pack<T, m>*>(op.dresidual + from);
        }
#pragma unroll
        for (int j = 0; j < kRowsAhead; ++j) {
          const int row_at = k + j;
          if (row_at >= some) continue;
          const auto& parts = shares[row_at];
          const Slopes<A> means{(parts[0].product + parts[1].product) * share,
                                (parts[0].shift + parts[1].shift) * share};
          row_backward<kind>(op.dx + (first + row_at) * op.width + i, dgain, dbias, dy[j].values,
                             x[j].values, gain, op.dresidual ? also[j].values : nullptr,
                             statistics_of(first + row_at), means);
        }
      }
      const std::int64_t to = chunk * op.width + i;
      const bool fresh = first == chunk * kCudaRowChunk;
      add_to(op.dgain + to, dgain, fresh);
      if constexpr (kind == NormKind::kLayerNorm) add_to(op.dbias + to, dbias, fresh);
    }
    __syncthreads();
  }
}

}  // namespace trireme::ops::cuda
