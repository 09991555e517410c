#pragma once
#include <cuda_runtime.h>

#include "model/ops/cuda/attention_heads.cuh"
#include "model/ops/cuda/values.cuh"

// Tiles of float32 and float64 heads in shared memory, and their products by multiply-adds. A few
// adjacent threads own one row of the block's own tile; they divide the other tile's rows, for
// which they compute scores, and the columns of the sums, 16 bytes at a time.
namespace trireme::ops::cuda {

// Sized so that two own and two other tiles fit in 99 KiB, the largest shared memory of a block on
// all devices.
template <class T, int W>
struct FmaTile {
  static constexpr int kLength = Vector<T>::kLength;
  static constexpr int kPitch = W + kLength;  // spreads rows over banks
  static constexpr int kRowBytes = W * static_cast<int>(sizeof(T));
  static constexpr int kRowThreads = kRowBytes <= 1024 ? 8 : 16;
  static constexpr int kOwn = kRowBytes <= 1024 ? 32 : 8;
  static constexpr int kOther = kRowBytes <= 512 ? 32 : kRowThreads;
  static constexpr int kThreads = kOwn * kRowThreads;
  static constexpr int kScores = kOther / kRowThreads;          // per thread
  static constexpr int kVectors = W / (kLength * kRowThreads);  // of the sums, per thread
  static constexpr int kOwnSize = kOwn * kPitch, kOtherSize = kOther * kPitch;
};

// Loads the rows from `first` on, zero-padded beyond the head's rows and width.
template <class T, int W, int kRows>
__device__ void load_fma_tile(T* tile, const HeadRows<const T>& from, int first) {
  using F = FmaTile<T, W>;
  constexpr int kEach = W / F::kLength;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kEach; i += F::kThreads) {
    const int row = i / kEach, column = i % kEach * F::kLength;
    const bool inside = first + row < from.rows;
    const T* const source = from.first + (first + row) * from.stride + column;
    *reinterpret_cast<Vector<T>*>(tile + row * F::kPitch + column) =
        load_vector(source, inside ? from.width - column : 0, from.vectors);
  }
}

// scores[i] = the own row times row lane + 8 i of the other tile, over `width` elements.
template <class T, int W>
__device__ __forceinline__ void multiply_fma(T (&scores)[FmaTile<T, W>::kScores], const T* own,
                                             const T* other, int width) {
  using F = FmaTile<T, W>;
  const T* const mine = other + static_cast<int>(threadIdx.x) % F::kRowThreads * F::kPitch;
#pragma unroll
  for (int i = 0; i < F::kScores; ++i) scores[i] = 0;
  for (int column = 0; column < width; column += F::kLength) {
    const auto a = *reinterpret_cast<const Vector<T>*>(own + column);
#pragma unroll
    for (int i = 0; i < F::kScores; ++i) {
      const auto b =
          *reinterpret_cast<const Vector<T>*>(mine + i * F::kRowThreads * F::kPitch + column);
#pragma unroll
      for (int e = 0; e < F::kLength; ++e) scores[i] += a.x[e] * b.x[e];
    }
  }
}

// sums += weights [kOther] of the own row times the rows of the other tile. The weights are in
// shared memory, written by the row's threads, which are in one warp.
template <class T, int W>
__device__ __forceinline__ void mix_fma(Vector<T> (&sums)[FmaTile<T, W>::kVectors],
                                        const T (&weights)[FmaTile<T, W>::kScores], T* shared,
                                        const T* other) {
  using F = FmaTile<T, W>;
  const int lane = static_cast<int>(threadIdx.x) % F::kRowThreads;
  T* const row = shared + static_cast<int>(threadIdx.x) / F::kRowThreads * F::kOther;
  __syncwarp();  // previous weights were read
#pragma unroll
  for (int i = 0; i < F::kScores; ++i) row[lane + F::kRowThreads * i] = weights[i];
  __syncwarp();
  for (int key = 0; key < F::kOther; ++key) {
    const T weight = row[key];
    const T* const values = other + key * F::kPitch + lane * F::kLength;
#pragma unroll
    for (int i = 0; i < F::kVectors; ++i) {
      const auto value =
          *reinterpret_cast<const Vector<T>*>(values + i * F::kRowThreads * F::kLength);
#pragma unroll
      for (int e = 0; e < F::kLength; ++e) sums[i].x[e] += weight * value.x[e];
    }
  }
}

// Stores the own row's sums, times `factor`, as row `row` of the head.
template <class T, int W>
__device__ __forceinline__ void store_fma(const HeadRows<T>& to,
                                          const Vector<T> (&sums)[FmaTile<T, W>::kVectors], int row,
                                          T factor) {
  using F = FmaTile<T, W>;
  if (row >= to.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % F::kRowThreads;
#pragma unroll
  for (int i = 0; i < F::kVectors; ++i) {
    const int column = (lane + F::kRowThreads * i) * F::kLength;
    Vector<T> value = sums[i];
#pragma unroll
    for (int e = 0; e < F::kLength; ++e) value.x[e] *= factor;
    store_vector(to.first + row * to.stride + column, value, to.width - column, to.vectors);
  }
}

}  // namespace trireme::ops::cuda
