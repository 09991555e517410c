#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// Tile size in queries and keys. The head width is padded to whole vectors of the widest
// instruction set, so that memory plans do not depend on it.
constexpr std::int64_t kAttentionTile = 64;
template <class A>
constexpr std::int64_t padded_width(std::int64_t width) {
  constexpr std::int64_t kMost = 64 / static_cast<std::int64_t>(sizeof(A));
  return (width + kMost - 1) / kMost * kMost;
}
constexpr std::int64_t attention_tiles(std::int64_t seq) {
  return (seq + kAttentionTile - 1) / kAttentionTile;
}

// One sequence and one key-value head, with the `group` query heads that read it. Rows are `stride`
// elements apart in qkv, `out_stride` in out and dout, `lse_stride` in lse; query heads are `width`
// apart, their lse adjacent.
template <class T>
struct AttentionHead {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const std::int32_t* document_start = nullptr;
  std::int64_t stride = 0, out_stride = 0, lse_stride = 0;
  std::int64_t seq = 0, width = 0, group = 1;
  double scale = 1;
};

// A subset of the (query head, query tile) pairs of a head: those with index `first` modulo `step`.
// The bits of a pair do not depend on the subset.
struct Share {
  std::int64_t first = 0, step = 1;
};

// Elements of Sum<T> of `workspace` per call, aligned to 64 bytes.
template <class A>
constexpr std::int64_t attention_workspace(std::int64_t seq, std::int64_t width) {
  const std::int64_t tiles = attention_tiles(seq), tile = kAttentionTile;
  return tile * padded_width<A>(width) * (2 * tiles + 2) + tile * tile + 3 * tile;
}
template <Isa isa, class T>
void attention(T* out, Sum<T>* lse, const AttentionHead<T>& head, Share queries, Sum<T>* workspace);

template <class T>
struct AttentionGradient {
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;  // laid out as q, k and v of the head
  const T *out = nullptr, *dout = nullptr;
  const Sum<T>* lse = nullptr;
  // The subset of query tiles, and that of the key tiles.
  Share queries, keys;
  bool want_dq = true;   // requires all keys
  bool want_dkv = true;  // of the subset's keys; requires all queries
};
template <class A>
constexpr std::int64_t attention_backward_workspace(std::int64_t seq, std::int64_t width) {
  const std::int64_t tiles = attention_tiles(seq), tile = kAttentionTile;
  return tile * padded_width<A>(width) * (4 * tiles + 5) + 2 * tile * tile + 3 * tile;
}
template <Isa isa, class T>
void attention_backward(const AttentionGradient<T>& gradient, const AttentionHead<T>& head,
                        Sum<T>* workspace);

// Attention of one query to `keys` rows of a cache: out [width]. `workspace` has padded_width
// elements.
template <class T>
struct CachedQuery {
  T* out = nullptr;
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t stride = 0, keys = 0, width = 0;
  double scale = 1;
};
template <Isa isa, class T>
void attention_cached(const CachedQuery<T>& query, Sum<T>* workspace);

}  // namespace trireme::simd
