#pragma once
#include <omp.h>

#include <algorithm>

#include "model/ops/attention.h"
#include "model/ops/cpu/kernels.h"

namespace trireme::ops::cpu {

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

// Of the probabilities of one sequence and one key-value head.
struct HeadDropout {
  const std::int32_t* words = nullptr;  // of the sequence's tokens; null: nothing is dropped
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;
  double scale = 1;
  std::int64_t first_head = 0;  // of the group, in the whole model
};

// One sequence and one key-value head, with the `group` query heads that read it. Rows are `stride`
// elements apart in qkv, `out_stride` in out and dout, `lse_stride` in lse; query heads are `width`
// apart, their lse adjacent.
template <class T>
struct AttentionHead {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const std::int32_t* first_seen = nullptr;
  std::int64_t stride = 0, out_stride = 0, lse_stride = 0;
  std::int64_t seq = 0, width = 0, group = 1;
  double scale = 1, soft_cap = 0;
  HeadDropout dropout;
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

template <class T>
AttentionHead<T> head_of(Tensor qkv, Tensor first_seen, const AttentionShape& shape,
                         std::int64_t batch, std::int64_t kv_head) {
  const Heads& heads = shape.heads;
  const std::int64_t group = heads.heads / heads.kv_heads, first = batch * shape.seq;
  const T* const row = at<T>(qkv, first * heads.qkv());
  return {.q = row + kv_head * group * heads.width,
          .k = row + (heads.heads + kv_head) * heads.width,
          .v = row + (heads.heads + heads.kv_heads + kv_head) * heads.width,
          .first_seen = at<std::int32_t>(first_seen, first),
          .stride = heads.qkv(),
          .out_stride = heads.query(),
          .lse_stride = heads.heads,
          .seq = shape.seq,
          .width = heads.width,
          .group = group,
          .scale = shape.scale,
          .soft_cap = shape.soft_cap,
          .dropout = dropout_of(shape, batch, kv_head)};
}

}  // namespace trireme::ops::cpu
