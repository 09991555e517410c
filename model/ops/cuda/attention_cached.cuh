#pragma once
// Included only by kernel sources: rows of keys and values over adjacent lanes, and the softmax of
// few queries over many keys.
#include <cmath>

#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {

constexpr int kTile = 512;  // keys whose scores are held

// A thread's part of a row, which is distributed over several adjacent threads.
template <class T, int W>
struct Share {
  static constexpr int kLength = Vector<T>::kLength;
  static constexpr int kLanes = W / kLength < 32 ? W / kLength : 32;
  static constexpr int kVectors = W / (kLength * kLanes);
  static constexpr int kValues = kVectors * kLength;
  Vector<T> part[kVectors];

  static __device__ int column(int i) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    return (lane + kLanes * (i / kLength)) * kLength + i % kLength;
  }
  // kAligned: rows are whole aligned vectors. Lanes beyond the row load its start: a condition
  // would let loads wait for each other.
  template <bool kAligned>
  __device__ __forceinline__ void load(const T* row, int width) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = column(i * kLength);
      if constexpr (kAligned) {
        part[i] = *reinterpret_cast<const Vector<T>*>(row + (at < width ? at : 0));
      } else {
        part[i] = load_vector(row + at, width - at, false);
      }
    }
  }
  __device__ __forceinline__ Accumulator<T> operator[](int i) const {
    return widened(part[i / kLength].x[i % kLength]);
  }
};

// Adds values[q] over groups of kLanes lanes. The sum of q = owned_query() ends in values[0].
template <int kLanes, int kQueries, class A>
__device__ __forceinline__ void sum_queries(A (&values)[kQueries]) {
  int apart = kLanes / 2;
#pragma unroll
  for (int half = kQueries / 2; half > 0; half /= 2, apart /= 2) {
    const bool is_upper = (threadIdx.x & static_cast<unsigned>(apart)) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const A sent = is_upper ? values[i] : values[i + half];
      const A kept = is_upper ? values[i + half] : values[i];
      values[i] = kept + __shfl_xor_sync(0xffffffffu, sent, apart);
    }
  }
#pragma unroll
  for (; apart > 0; apart /= 2) values[0] += __shfl_xor_sync(0xffffffffu, values[0], apart);
}
template <int kLanes, int kQueries>
__device__ int owned_query() {
  return static_cast<int>(threadIdx.x) % kLanes / (kLanes / kQueries);
}

// The softmax over the keys of a split, tile by tile, of some queries.
template <class A, int kQueries>
struct Softmax {
  Vector<A, kQueries> weights[kTile];  // scores, in powers of two, before weigh()
  A top[kQueries], sum[kQueries];
  A factor[kQueries];  // of what was added for earlier tiles

  // Of `count` keys, by a warp for each query; weights up to `padded` are 0.
  __device__ void weigh(int count, int padded, bool is_first) {
    const int q = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (q >= kQueries) return;
    const A old_top = is_first ? static_cast<A>(-INFINITY) : top[q];
    const A old_sum = is_first ? A(0) : sum[q];
    A now = old_top, added = 0;
    for (int k = lane; k < count; k += 32) now = max(now, weights[k].x[q]);
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2)
      now = max(now, __shfl_xor_sync(0xffffffffu, now, apart));
    for (int k = lane; k < count; k += 32) {
      const A weight = std::exp2(weights[k].x[q] - now);
      weights[k].x[q] = weight;
      added += weight;
    }
    for (int k = count + lane; k < padded; k += 32) weights[k].x[q] = 0;
    added = warp_sum(added);
    __syncwarp();  // all lanes have read what the first writes
    if (lane != 0) return;
    factor[q] = std::exp2(old_top - now);
    sum[q] = old_sum * factor[q] + added;
    top[q] = now;
  }
};

}  // namespace trireme::ops::cuda
