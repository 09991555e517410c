#include "model/ops/cpu/attention.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "model/ops/cpu/attention.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// scores [kTile keys, kTile queries] = exp(score - running maximum); updates sums and maxima;
// `shrink` rescales earlier sums.
template <class A>
TRIREME_KERNEL void soften(A* scores, A* top, A* sum, A* shrink, const Pair<A>& pair) {
  for (std::int64_t lane = 0; lane < kTile; lane += kLanes<A>) {
    A* column = scores + lane;
    const Vec<A> old = vec(top + lane);
    Vec<A> now = old;
    each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> s = see(vec(column + key * kTile));
      now = above(s, now);
    });
    // No visible key yet: any finite number works, as all terms are zero.
    const Vec<A> base = IfThenElse(now == spread(kNothing<A>), zero<A>(), now);
    Vec<A> total = zero<A>();
    const std::int64_t end = each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> p = exp<A>(see(vec(column + key * kTile)) - base);
      total += p;
      store(Full{}, column + key * kTile, p);
    });
    for (std::int64_t key = most(end, 0); key < pair.keys; ++key)
      store(Full{}, column + key * kTile, zero<A>());
    const Vec<A> factor = exp<A>(old - base);
    store(Full{}, top + lane, now);
    store(Full{}, shrink + lane, factor);
    store(Full{}, sum + lane, MulAdd(vec(sum + lane), factor, total));
  }
}

template <class T>
TRIREME_KERNEL void attend(T* out, Accumulator<T>* lse, const AttentionHead<T>& head, Share queries,
                           Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  const std::int64_t padded = padded_width<A>(head.width), tiles = attention_tiles(head.seq);
  const std::int64_t all = attention_tiles(head.keys) * kTile * padded;
  A *const keys = workspace, *const values = keys + all;
  A* const rows = values + all;              // queries, then their sums of values
  A* const columns = rows + kTile * padded;  // queries, transposed
  A* const scores = columns + kTile * padded;
  A *const top = scores + kTile * kTile, *const sum = top + kTile, *const factors = sum + kTile;
  A shrink[kTile];
  pack_seen(keys, values, padded, head);
  for (std::int64_t item = queries.first; item < head.group * tiles; item += queries.step) {
    const std::int64_t member = item / tiles;
    Pair<A> pair;
    take_queries(pair, head, item % tiles);
    pack<T, A>(rows, padded, head.q + member * head.width + pair.first_query * head.stride,
               head.stride, pair.queries, head.width, static_cast<A>(head.scale));
    transpose(columns, rows, padded, pair.queries, head.width);
    for (std::int64_t i = 0; i < kTile; ++i) {
      top[i] = kNothing<A>;
      sum[i] = 0;
    }
    const std::int64_t start = next_tile(pair, 0);
    for (std::int64_t j = start; j != kNoTile; j = next_tile(pair, j + 1)) {
      take_keys(pair, head, j);
      multiply<A>({.c = scores,
                   .ldc = kTile,
                   .a = keys + pair.first_key * padded,
                   .a_row = padded,
                   .b = columns,
                   .ldb = kTile,
                   .m = pair.keys,
                   .n = kTile,
                   .k = head.width,
                   .trim = Trim::kColumns,
                   .offset = pair.offset()});
      if (head.soft_cap > 0) cap_scores(scores, static_cast<A>(head.soft_cap), pair);
      soften(scores, top, sum, shrink, pair);
      if (head.dropout.words) {
        draw_factors(factors, head.dropout, member, pair);
        drop(scores, factors, pair.keys);
      }
      if (j > start) {
        for (std::int64_t row = 0; row < pair.queries; ++row) {
          if (shrink[row] == 1) continue;
          for (std::int64_t i = 0; i < padded; i += kLanes<A>)
            store(Full{}, rows + row * padded + i,
                  vec(rows + row * padded + i) * spread(shrink[row]));
        }
      }
      multiply<A>({.c = rows,
                   .ldc = padded,
                   .a = scores,
                   .a_row = 1,
                   .a_column = kTile,
                   .b = values + pair.first_key * padded,
                   .ldb = padded,
                   .m = pair.queries,
                   .n = padded,
                   .k = pair.keys,
                   .add = j > start,
                   .trim = Trim::kLater,
                   .offset = pair.offset()});
    }
    for (std::int64_t row = 0; row < pair.queries; ++row) {
      const std::int64_t token = pair.first_query + row;
      const bool sees = sum[row] != 0;
      const A inverse = A(1) / sum[row];
      T* const to = out + member * head.width + token * head.out_stride;
      each_vector<A>(head.width, [&](auto some, std::int64_t i, int) {
        store(some, to + i, sees ? vec(rows + row * padded + i) * spread(inverse) : zero<A>());
      });
      lse[token * head.lse_stride + member] = top[row] + std::log(sum[row]);
    }
  }
}

void attend_all(Tensor workspace, Tensor out, Tensor lse, const PartAttention& part,
                const AttentionShape& shape) {
  const std::int64_t group = shape.heads.heads / shape.heads.kv_heads;
  const std::int64_t shares = shares_for(shape.batch * shape.heads.kv_heads, workspace.rows(),
                                         group * attention_tiles(shape.seq));
  with_float(part.qkv.dtype, [&]<class T>(T) {
    each_share(shape, shares, workspace,
               [&](std::int64_t batch, std::int64_t kv_head, std::int64_t share, Tensor mine) {
                 const std::int64_t row = batch * shape.seq, head = kv_head * group;
                 attend(at<T>(out, row * shape.heads.query() + head * shape.heads.width),
                        at<Accumulator<T>>(lse, row * shape.heads.heads + head),
                        head_of<T>(part, shape, batch, kv_head), {share, shares},
                        at<Accumulator<T>>(mine));
               });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(attend_all);

void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor first_seen,
               const AttentionShape& shape) {
  const PartAttention whole{
      .keys = shape.seq, .qkv = qkv, .kv = {}, .rows = {}, .first_seen = first_seen};
  HWY_DYNAMIC_DISPATCH(attend_all)(workspace, out, lse, whole, shape);
}
void part_attention(Stream&, Tensor workspace, Tensor out, Tensor lse, const PartAttention& part,
                    const AttentionShape& shape) {
  HWY_DYNAMIC_DISPATCH(attend_all)(workspace, out, lse, part, shape);
}
void window_start(Stream&, Tensor first_seen, Tensor document_start, Tensor rows, std::int64_t seq,
                  std::int64_t window) {
  const auto* const from = at<std::int32_t>(document_start);
  const auto* const row = at<std::int32_t>(rows);
  auto* const to = at<std::int32_t>(first_seen);
  for (std::int64_t token = 0; token < first_seen.count(); ++token) {
    const std::int64_t start = (row ? row[token] : token % seq) - window + 1;
    to[token] = static_cast<std::int32_t>(std::max<std::int64_t>(from[token], start));
  }
}

// Accumulators of a head's workspace, aligned to 64 bytes.
template <class A>
std::int64_t head_workspace(std::int64_t keys, const AttentionShape& shape) {
  const std::int64_t tiles = attention_tiles(keys), tile = kAttentionTile;
  return tile * padded_width<A>(shape.heads.width) * (2 * tiles + 2) +
         (shape.dropout ? 2 : 1) * tile * tile + 2 * tile;
}

Shape attention_workspace(Device, const AttentionShape& shape, DType dtype) {
  return part_attention_workspace(shape.seq, shape, dtype);
}
Shape part_attention_workspace(std::int64_t keys, const AttentionShape& shape, DType dtype) {
  return {threads_for(shape), dtype == DType::kF64 ? head_workspace<double>(keys, shape)
                                                   : head_workspace<float>(keys, shape)};
}

}  // namespace trireme::ops::cpu
#endif
