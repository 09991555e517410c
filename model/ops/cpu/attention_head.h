#pragma once
#include <omp.h>

#include <algorithm>

#include "model/ops/cpu/kernels.h"
#include "model/ops/part_attention.h"

namespace trireme::ops::cpu {

// Tile size in queries and keys. The head width is padded to whole vectors of the widest
// instruction set, so that memory plans do not depend on it.
constexpr std::int64_t kAttentionTile = 64;
template <class A>
constexpr std::int64_t padded_width(std::int64_t width) {
  constexpr std::int64_t kMost = 64 / static_cast<std::int64_t>(sizeof(A));
  return (width + kMost - 1) / kMost * kMost;
}
constexpr std::int64_t attention_tiles(std::int64_t rows) {
  return (rows + kAttentionTile - 1) / kAttentionTile;
}

// Of the probabilities of one sequence and one key-value head.
struct HeadDropout {
  const std::int32_t* words = nullptr;  // of the sequence's tokens; null: nothing is dropped
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;
  double scale = 1;
  std::int64_t first_head = 0;  // of the group, in the whole model
};

// One sequence and one key-value head, with the `group` query heads that read it. Rows of queries
// are `stride` elements apart, those of keys and values `kv_stride`, of out and dout `out_stride`,
// of lse `lse_stride`; query heads are `width` apart, their lse adjacent.
template <class T>
struct AttentionHead {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const std::int32_t* first_seen = nullptr;
  const std::int32_t* rows = nullptr;      // null: query i is row i
  const std::int32_t* key_rows = nullptr;  // null: key k is row k
  std::int64_t stride = 0, kv_stride = 0, out_stride = 0, lse_stride = 0;
  std::int64_t seq = 0, keys = 0, width = 0, group = 1;
  double scale = 1, soft_cap = 0;
  HeadDropout dropout;

  // The keys that a query sees are those from first_key to before end_key; none if that is not
  // more. Neither decreases with the query.
  std::int64_t first_key(std::int64_t query) const {
    const std::int32_t row = first_seen[query];
    if (!key_rows) return std::min<std::int64_t>(row, keys);
    return std::lower_bound(key_rows, key_rows + keys, row) - key_rows;
  }
  std::int64_t end_key(std::int64_t query) const {
    const std::int64_t row = rows ? rows[query] : query;
    if (!key_rows) return std::min(row + 1, keys);
    return std::upper_bound(key_rows, key_rows + keys, row) - key_rows;
  }
};

// A subset of the (query head, query tile) pairs of a head: those with index `first` modulo `step`.
// The bits of a pair do not depend on the subset.
struct Share {
  std::int64_t first = 0, step = 1;
};

// Target number of tasks per thread when heads are split: query tiles differ in cost, so threads
// that finish early need more work.
inline constexpr std::int64_t kTasksPerThread = 2;

inline std::int64_t threads_for(const AttentionShape& shape) {
  const std::int64_t most = shape.batch * shape.heads.heads * attention_tiles(shape.seq);
  return std::min<std::int64_t>(omp_get_max_threads(), most);
}

// Number of shares, at most `most`, for each of `heads` heads.
inline std::int64_t shares_for(std::int64_t heads, std::int64_t threads, std::int64_t most) {
  if (heads >= kTasksPerThread * threads) return 1;
  return std::clamp<std::int64_t>((kTasksPerThread * threads + heads - 1) / heads, 1, most);
}

// Calls body(batch, kv_head, share, workspace of this thread) for each share of each head.
template <class Body>
void each_share(const AttentionShape& shape, std::int64_t shares, Tensor workspace,
                const Body& body) {
  const std::int64_t tasks = shape.batch * shape.heads.kv_heads * shares;
  const int threads = static_cast<int>(std::min(workspace.rows(), tasks));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t head = task / shares;
    body(head / shape.heads.kv_heads, head % shape.heads.kv_heads, task % shares,
         workspace.row_slice(omp_get_thread_num(), 1));
  }
}

inline HeadDropout dropout_of(const AttentionShape& shape, std::int64_t batch,
                              std::int64_t kv_head) {
  const Dropout& how = shape.dropout;
  if (!how) return {};
  return {.words = at<std::int32_t>(how.words, batch * shape.seq),
          .key = how.key,
          .dropped = how.dropped(),
          .scale = how.scale(),
          .first_head = shape.first_head + kv_head * shape.heads.heads / shape.heads.kv_heads};
}

// The keys and values are in qkv where `part` has no others.
template <class T>
AttentionHead<T> head_of(const PartAttention& part, const AttentionShape& shape, std::int64_t batch,
                         std::int64_t kv_head) {
  const Heads& heads = shape.heads;
  const std::int64_t group = heads.heads / heads.kv_heads, first = batch * shape.seq;
  const std::int64_t first_key = batch * part.keys, width = heads.width;
  const std::int64_t kv_stride = part.kv ? 2 * heads.kv_heads * width : heads.qkv();
  const T* const keys = part.kv ? at<T>(part.kv, first_key * kv_stride)
                                : at<T>(part.qkv, first * kv_stride + heads.query());
  return {.q = at<T>(part.qkv, first * heads.qkv() + kv_head * group * width),
          .k = keys + kv_head * width,
          .v = keys + (heads.kv_heads + kv_head) * width,
          .first_seen = at<std::int32_t>(part.first_seen, first),
          .rows = at<std::int32_t>(part.rows, first),
          .key_rows = at<std::int32_t>(part.key_rows, first_key),
          .stride = heads.qkv(),
          .kv_stride = kv_stride,
          .out_stride = heads.query(),
          .lse_stride = heads.heads,
          .seq = shape.seq,
          .keys = part.keys,
          .width = width,
          .group = group,
          .scale = shape.scale,
          .soft_cap = shape.soft_cap,
          .dropout = dropout_of(shape, batch, kv_head)};
}

}  // namespace trireme::ops::cpu
