#pragma once
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "model/ops/cuda/philox.cuh"
#include "model/ops/dispatch.h"

// Common parts of all attention kernels: layout of heads, and which tiles have work in common.
namespace trireme::ops::cuda {

// Rows of one head of one sequence, in global memory.
template <class T>
struct HeadRows {
  T* first = nullptr;
  std::int64_t stride = 0;  // elements
  int rows = 0, width = 0;
  bool vectors = false;  // every row is aligned to, and a multiple of, 16 bytes
};

// First index in [low, high) whose value is at least `bound`, or else `high`; values never
// decrease. All lanes of a warp call it: each step looks at 32 places.
__device__ inline int first_from(const std::int32_t* values, int low, int high, int bound) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  while (low < high) {
    const int step = (high - low + 31) / 32, at = low + step * lane;
    const int below =
        __popc(__ballot_sync(0xffffffffu, static_cast<int>(at < high && values[at] < bound)));
    high = min(high, low + step * below);
    if (below > 0) low += step * (below - 1) + 1;
  }
  return low;
}

// Queries or keys [first, end) of a sequence.
struct RowRange {
  int first = 0, end = 0;
};

// All heads of a batch, as a kernel parameter. In a token's row query heads precede key heads
// precede value heads; out and dout have query heads only.
template <class T>
struct AttentionHeads {
  using Element = T;
  static constexpr bool kIsPart = false;

  const T* qkv = nullptr;
  const std::int32_t* first_seen = nullptr;  // of each query, the first key that it sees
  int seq = 0, heads = 0, kv_heads = 0, width = 0;
  double scale = 1;
  // Scores become cap tanh(score inverse_cap) before scaling; 0: they stay.
  Accumulator<T> cap = 0, inverse_cap = 0;
  bool vectors = false;  // for all tensors with heads

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

  // What PartHeads has too. Heads of keys and values are numbered from 0.
  __host__ __device__ int key_count() const { return seq; }
  __device__ HeadRows<const T> queries(int batch, int head) const {
    return of_all(qkv, batch, head);
  }
  __device__ HeadRows<const T> keys(int batch, int kv_head) const {
    return of_all(qkv, batch, heads + kv_head);
  }
  __device__ HeadRows<const T> values(int batch, int kv_head) const {
    return of_all(qkv, batch, heads + kv_head + kv_heads);
  }
  template <class Gradient>
  __device__ HeadRows<T> query_gradient(const Gradient& to, int batch, int head) const {
    return of_all(to.dqkv, batch, head);
  }
  template <class Gradient>
  __device__ HeadRows<T> key_gradient(const Gradient& to, int batch, int kv_head) const {
    return of_all(to.dqkv, batch, heads + kv_head);
  }
  template <class Gradient>
  __device__ HeadRows<T> value_gradient(const Gradient& to, int batch, int kv_head) const {
    return of_all(to.dqkv, batch, heads + kv_head + kv_heads);
  }
  // The last key that a query sees.
  __device__ int last_seen(int /*batch*/, int query) const { return query; }
  // The keys that the queries [first, end) see.
  __device__ RowRange seen(int batch, int first, int end) const {
    return {starts(batch)[first], end};
  }
  // The queries that see the keys [first, end). All lanes of a warp call it.
  __device__ RowRange readers(int batch, int first, int end) const {
    return {first, first_from(starts(batch), first, seq, end)};
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

// The factor of a query's output, given its sum of exponentials, which is 0 if it sees no key.
template <class In>
__device__ Accumulator<typename In::Element> inverse_sum(Accumulator<typename In::Element> sum) {
  return In::kIsPart && sum == 0 ? 0 : 1 / sum;
}

// What the backward needs of a query: its log-sum-exp, its delta and the keys that it sees; a query
// that does not exist sees none.
template <class A, bool kIsPart>
struct SeeingQuery {
  A lse = 0, delta = 0;
  int start = INT_MAX;

  template <class In>
  static __device__ __forceinline__ SeeingQuery of(const In& in, std::int64_t token, A lse,
                                                   A delta) {
    return {lse, delta, in.first_seen[token]};
  }
  __device__ __forceinline__ int last(int query) const { return query; }
};
template <class A>
struct SeeingQuery<A, true> {
  A lse = 0, delta = 0;
  int start = INT_MAX, end = 0;

  template <class In>
  static __device__ __forceinline__ SeeingQuery of(const In& in, std::int64_t token, A lse,
                                                   A delta) {
    return {lse, delta, in.first_seen[token], in.ends[token]};
  }
  __device__ __forceinline__ int last(int /*query*/) const { return end - 1; }
};

// Heads of part_attention: keys and values are in a tensor of their own, [batch keys, 2 kv_heads
// width]. Query i of a sequence sees its keys [first_seen[i], ends[i]), none if that is empty;
// neither bound ever decreases.
template <class T>
struct PartHeads : HeadsWithDropout<T> {
  static constexpr bool kIsPart = true;

  const T* kv = nullptr;
  const std::int32_t* ends = nullptr;
  int keys_per_sequence = 0;

  // Rows of a head of a tensor laid out like kv, numbered over key and value heads.
  template <class U>
  __device__ HeadRows<U> of_kv(U* tensor, int batch, int head) const {
    const std::int64_t stride = std::int64_t{2} * this->kv_heads * this->width;
    return {tensor + std::int64_t{batch} * keys_per_sequence * stride +
                std::int64_t{head} * this->width,
            stride, keys_per_sequence, this->width, this->vectors};
  }
  __device__ const std::int32_t* ends_of(int batch) const {
    return ends + std::int64_t{batch} * this->seq;
  }

  __host__ __device__ int key_count() const { return keys_per_sequence; }
  __device__ HeadRows<const T> keys(int batch, int kv_head) const {
    return of_kv(kv, batch, kv_head);
  }
  __device__ HeadRows<const T> values(int batch, int kv_head) const {
    return of_kv(kv, batch, this->kv_heads + kv_head);
  }
  template <class Gradient>
  __device__ HeadRows<T> query_gradient(const Gradient& to, int batch, int head) const {
    return this->of_queries(to.dq, batch, head);
  }
  template <class Gradient>
  __device__ HeadRows<T> key_gradient(const Gradient& to, int batch, int kv_head) const {
    return of_kv(to.dkv, batch, kv_head);
  }
  template <class Gradient>
  __device__ HeadRows<T> value_gradient(const Gradient& to, int batch, int kv_head) const {
    return of_kv(to.dkv, batch, this->kv_heads + kv_head);
  }
  __device__ int last_seen(int batch, int query) const {
    return ends_of(batch)[min(query, this->seq - 1)] - 1;
  }
  // Empty ranges are [0, 0).
  __device__ RowRange seen(int batch, int first, int end) const {
    const RowRange range{this->starts(batch)[first], ends_of(batch)[end - 1]};
    return range.first < range.end ? range : RowRange{};
  }
  __device__ RowRange readers(int batch, int first, int end) const {
    const int reader = first_from(ends_of(batch), 0, this->seq, first + 1);
    const RowRange range{reader, first_from(this->starts(batch), reader, this->seq, end)};
    return range.first < range.end ? range : RowRange{};
  }
};

}  // namespace trireme::ops::cuda
