#pragma once
// Included only by kernel sources. The kernels of the norms, forward and backward.
#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/norm_row.cuh"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cuda {

// [rows, width] each, or [rows], or [width]; see ops/norm.h. Null: absent.
template <class T>
struct NormRows {
  T* y;
  Sum<T>*mean, *inverse;
  T* sum;
  int* magnitudes;
  const T *x, *residual, *gain, *bias;
  std::int64_t rows, width;
  Sum<T> epsilon, gain_offset;
};

// A row's team is along x; a block of one-warp teams has several along y.
__device__ inline std::int64_t row_of_team() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// Threads of a block at most, whatever the width of rows.
constexpr int kRowThreads = 512;

// Packs per lane. LayerNorm has two sums over a team, which cost less in small teams.
template <NormKind kind>
constexpr int kHeldPacks = kind == NormKind::kLayerNorm ? 4 : 2;

template <NormKind kind, int n, bool kCollects, class T>
__global__ void norm_kernel(NormRows<T> op) {
  using A = Sum<T>;
  using Row = HeldRow<kHeldPacks<kind>, n, T>;
  __shared__ A room[2][32];
  Team<A> team{room, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = row_of_team();
  if (row >= op.rows) return;  // exits a whole team; no thread of its block waits for it
  const std::int64_t start = row * op.width;
  Row x(op.x + start, op.width, team);
  if (op.sum) x.add(Row(op.residual + start, op.width, team), op.sum + start);
  const Statistics<A> found = statistics<kind>(x, op.epsilon, team);
  if (team.lane == 0) {
    op.inverse[row] = found.inverse;
    if constexpr (kind == NormKind::kLayerNorm) op.mean[row] = found.mean;
  }
  auto largest = apply<kind, kCollects>(op.y + start, x, op.gain, op.gain_offset, op.bias, found);
  if (team.lanes == 32) {  // other teams of the block may have exited
    largest.finish_warp(op.magnitudes);
  } else {
    largest.template finish<kRowThreads>(op.magnitudes);
  }
}

template <NormKind kind, int n, class T>
__global__ void norm_recompute_kernel(NormRows<T> op) {
  using A = Sum<T>;
  const Team<A> team{nullptr, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const std::int64_t row = row_of_team();
  if (row >= op.rows) return;
  const std::int64_t start = row * op.width;
  const Statistics<A> found{kind == NormKind::kLayerNorm ? op.mean[row] : A(0), op.inverse[row]};
  const HeldRow<kHeldPacks<kind>, n, T> x(op.x + start, op.width, team);
  apply<kind, false>(op.y + start, x, op.gain, op.gain_offset, op.bias, found);
}

template <class T>
struct NormBackwardRows {
  T* dx;
  Sum<T>*dgain, *dbias;  // per chunk of rows; a LayerNorm may have no bias
  const T *dy, *x, *gain, *dresidual;
  const Sum<T>*mean, *inverse;
  std::int64_t rows, width;
  Sum<T> share;  // 1 / width, the weight of an element in a mean
  Sum<T> gain_offset;
};

// At most. Registers are for as many threads per multiprocessor, twice as many as a narrow row's
// block has, unless doubles use them.
template <class T>
constexpr int kBackwardThreads = sizeof(T) == 8 ? 512 : 1024;

// Sum over a team, of all lanes; `shares` is one of two buffers, used in turn.
template <NormKind kind, class A>
__device__ Slopes<A> team_sum(Slopes<A> mine, Slopes<A>* shares, int lane, int lanes) {
  const auto over_warp = [&] {
    mine.product = warp_sum(mine.product);
    if constexpr (kind == NormKind::kLayerNorm) mine.shift = warp_sum(mine.shift);
  };
  over_warp();
  if (lane % 32 == 0) shares[lane / 32] = mine;
  __syncthreads();
  mine = lane % 32 < lanes / 32 ? shares[lane % 32] : Slopes<A>{0, 0};
  over_warp();
  return mine;
}

// A block processes one chunk of rows, a row per team at a time. If a team holds a row, a pack per
// lane, the loads of its next row are in flight, and columns are summed in shared memory; otherwise
// rows are loaded twice and summed in the chunk's sums.
template <NormKind kind, bool kHolds, int n, class T>
__global__ __launch_bounds__(kBackwardThreads<T>) void norm_backward_kernel(
    NormBackwardRows<T> op) {
  using A = Sum<T>;
  using P = Pack<T, n>;
  using Sums = ColumnSums<n, A>;
  constexpr bool kMean = kind == NormKind::kLayerNorm;
  const bool has_bias = kMean && op.dbias != nullptr;
  __shared__ Slopes<A> shares[2][kBackwardThreads<T> / 32];
  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  const int team = static_cast<int>(threadIdx.y), teams = static_cast<int>(blockDim.y);
  const int width = static_cast<int>(op.width), column = lane * n;
  // Of number `which`; those of adjacent threads are adjacent.
  const auto sums_of = [&](int owner, int which) {
    return Sums{trireme::cuda::dynamic_shared<typename Sums::P>() +
                    which * Sums::kPacks * lanes * teams + owner * lanes + lane,
                lanes * teams};
  };
  const auto sums_at = [&](A* sums, int i) {
    return Sums{reinterpret_cast<typename Sums::P*>(sums + blockIdx.x * op.width + i), 1};
  };
  const int first = static_cast<int>(blockIdx.x * kCudaRowChunk);
  const int end = static_cast<int>(min(op.rows, first + kCudaRowChunk));
  struct Inputs {
    P dy, x, also;
  };
  const auto fetch = [&](Inputs& to, int row, int i) {
    const std::int64_t from = row * op.width + i;
    to.dy = pack_at<n>(op.dy + from);
    to.x = pack_at<n>(op.x + from);
    if (op.dresidual) to.also = pack_at<n>(op.dresidual + from);
  };
  const bool has_pack = kHolds && column < width;
  P gain{};
  Inputs next{};
  if (has_pack) {
    gain = pack_at<n>(op.gain + column);
    if (first + team < end) fetch(next, first + team, column);
  }
  if constexpr (kHolds) {
    sums_of(team, 0).clear();
    if (has_bias) sums_of(team, 1).clear();
  }
  int turn = 0;
  for (int row = first + team; row - team < end; row += teams, turn ^= 1) {
    Inputs in = next;
    if (has_pack && row + teams < end) fetch(next, row + teams, column);
    Statistics<A> found{0, 0};
    Slopes<A> means{0, 0};
    if (row < end) {
      found = {kMean ? op.mean[row] : A(0), op.inverse[row]};
      if (has_pack) add_slopes<kind>(means, in.dy, in.x, gain, op.gain_offset, found);
#pragma unroll 1  // unrolled, single doubles spill registers
      for (int i = column; !kHolds && i < width; i += lanes * n) {
        fetch(in, row, i);
        add_slopes<kind>(means, in.dy, in.x, pack_at<n>(op.gain + i), op.gain_offset, found);
      }
    }
    means = team_sum<kind>(means, shares[turn] + team * lanes / 32, lane, lanes);
    means = {means.product * op.share, means.shift * op.share};
    const auto finish = [&](int i, const P& gains, const Sums& dgain, const Sums& dbias) {
      A v[n], d[n];
      widen(v, in.x);
      widen(d, in.dy);
      center_and_scale<kind>(v, found);
      dgain.update([&](int k, A sum) { return fma(d[k], v[k], sum); });
      if (has_bias) dbias.update([&](int k, A sum) { return sum + d[k]; });
      row_backward<kind>(d, v, gains, op.gain_offset, found, means);
      if (op.dresidual) {
        widen(v, in.also);
#pragma unroll
        for (int k = 0; k < n; ++k) d[k] += v[k];
      }
      store(op.dx + row * op.width + i, d);
    };
    if (has_pack && row < end) finish(column, gain, sums_of(team, 0), sums_of(team, 1));
#pragma unroll 1
    for (int i = column; !kHolds && i < width; i += lanes * n) {
      const Sums dgain = sums_at(op.dgain, i), dbias = sums_at(op.dbias, i);
      if (row == first) {
        dgain.clear();
        if (has_bias) dbias.clear();
      }
      fetch(in, row, i);
      finish(i, pack_at<n>(op.gain + i), dgain, dbias);
    }
  }
  __syncthreads();
  for (int which = 0; has_pack && team == 0 && which < (has_bias ? 2 : 1); ++which) {
    A* const to = (which == 0 ? op.dgain : op.dbias) + blockIdx.x * op.width + column;
    sums_of(0, which).update([&](int k, A sum) {
      for (int other = 1; other < teams; ++other) sum += sums_of(other, which)[k];
      return to[k] = sum;
    });
  }
}

}  // namespace trireme::ops::cuda
