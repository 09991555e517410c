#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "model/ops/cuda/philox.cuh"
#include "model/ops/dispatch.h"

// Common parts of all attention kernels: layout of heads, and overlapping tiles.
namespace trireme::ops::cuda {

// Rows of one head of one sequence, in global memory.
template <class T>
struct HeadRows {
  T* first = nullptr;
  std::int64_t stride = 0;  // elements
  int rows = 0, width = 0;
  bool vectors = false;  // every row is aligned to, and a multiple of, 16 bytes
};

// All heads of a batch, as a kernel parameter. In a token's row query heads precede key heads
// precede value heads; out and dout have query heads only.
template <class T>
struct AttentionHeads {
  const T* qkv = nullptr;
  const std::int32_t* first_seen = nullptr;
  int seq = 0, heads = 0, kv_heads = 0, width = 0;
  double scale = 1;
  // Scores become cap tanh(score inverse_cap) before scaling; 0: they stay.
  Accumulator<T> cap = 0, inverse_cap = 0;
  bool vectors = false;  // for qkv, out, dout and dqkv

  __device__ int group() const { return heads / kv_heads; }
  // Rows of a head of a tensor laid out like qkv, numbered over query, key and value heads.
  template <class U>
  __device__ HeadRows<U> of_all(U* tensor, int batch, int head) const {
    const std::int64_t stride = std::int64_t{heads + 2 * kv_heads} * width;
    return {tensor + std::int64_t{batch} * seq * stride + std::int64_t{head} * width, stride, seq,
            width, vectors};
  }
  template <class U>
  __device__ HeadRows<U> of_queries(U* tensor, int batch, int head) const {
    const std::int64_t stride = std::int64_t{heads} * width;
    return {tensor + std::int64_t{batch} * seq * stride + std::int64_t{head} * width, stride, seq,
            width, vectors};
  }
  __device__ const std::int32_t* starts(int batch) const {
    return first_seen + std::int64_t{batch} * seq;
  }
};

// Heads whose probabilities may be dropped (ops/attention.h).
template <class T>
struct HeadsWithDropout : AttentionHeads<T> {
  const std::int32_t* words = nullptr;  // of the tokens; null: nothing is dropped
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;
  int first_head = 0;       // in the model
  Accumulator<T> kept = 1;  // factor of what is kept

  // The draw of eight keys of 32, pair `two` of every eight, for a query.
  __device__ PhiloxWords draw(int batch, int head, int query, int first_of_32, int two) const {
    const auto counter = static_cast<std::uint64_t>(first_head + head) << 32 |
                         static_cast<std::uint64_t>(first_of_32 / 32 * 4 + two);
    const std::int64_t token = std::int64_t{batch} * this->seq + min(query, this->seq - 1);
    return philox_words(key, counter, static_cast<std::uint32_t>(words[token]));
  }
  __device__ bool keeps(std::uint32_t word, int of_key) const {
    return (word >> (of_key % 2 * 16) & 0xffff) >= dropped;
  }
  __device__ Accumulator<T> factor(int batch, int head, int query, int of_key) const {
    const PhiloxWords drawn = draw(batch, head, query, of_key, of_key % 8 / 2);
    return keeps(drawn[static_cast<unsigned>(of_key / 8 % 4)], of_key) ? kept : Accumulator<T>(0);
  }
};

// One past the last query that sees a key of [first_key, end_key); first_seen never decreases.
// All lanes of a warp call it: each step looks at 32 places.
__device__ inline int end_of_readers(const std::int32_t* starts, int seq, int first_key,
                                     int end_key) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int low = first_key, high = seq;
  while (low < high) {
    const int step = (high - low + 31) / 32, at = low + step * lane;
    const int seen =
        __popc(__ballot_sync(0xffffffffu, static_cast<int>(at < high && starts[at] < end_key)));
    high = min(high, low + step * seen);
    if (seen > 0) low += step * (seen - 1) + 1;
  }
  return low;
}

}  // namespace trireme::ops::cuda
