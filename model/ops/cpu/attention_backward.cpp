#include "model/ops/cpu/attention.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/attention_backward.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct AttentionGradient {
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::int64_t dq_stride = 0, dkv_stride = 0;  // between rows
  const T *out = nullptr, *dout = nullptr;
  const Accumulator<T>* lse = nullptr;
  // The subset of query tiles, and that of the key tiles.
  Share queries, keys;
  bool want_dq = true;   // requires all keys
  bool want_dkv = true;  // of the subset's keys; requires all queries
};

// scores = probabilities p; dp, the gradient of p, becomes p (dp - delta), with a soft cap times
// 1 - (score / cap)^2.
template <bool kCaps, class A>
TRIREME_KERNEL void soften_backward(A* scores, A* dp, const A* lse, const A* delta, A cap,
                                    const Pair<A>& pair) {
  const Vec<A> inverse = spread(1 / cap);
  for (std::int64_t lane = 0; lane < kTile; lane += kLanes<A>) {
    A *column = scores + lane, *gradient = dp + lane;
    const Vec<A> base = vec(lse + lane), mean = vec(delta + lane);
    const std::int64_t end = each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> score = see(vec(column + key * kTile)), p = exp<A>(score - base);
      store(Full{}, column + key * kTile, p);
      Vec<A> ds = p * (vec(gradient + key * kTile) - mean);
      if constexpr (kCaps) {
        // The score of an invisible key is infinite.
        const Vec<A> ratio = above(score * inverse, spread(A(-1)));
        ds = ds * NegMulAdd(ratio, ratio, spread(A(1)));
      }
      store(Full{}, gradient + key * kTile, ds);
    });
    for (std::int64_t key = most(end, 0); key < pair.keys; ++key) {
      store(Full{}, column + key * kTile, zero<A>());
      store(Full{}, gradient + key * kTile, zero<A>());
    }
  }
}

template <class T>
TRIREME_KERNEL void attend_backward(const AttentionGradient<T>& gradient,
                                    const AttentionHead<T>& head, Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  const std::int64_t padded = padded_width<A>(head.width), tiles = attention_tiles(head.seq);
  const std::int64_t one = kTile * padded, all = attention_tiles(head.keys) * one;
  A *const keys = workspace, *const values = keys + all;
  A *const dkeys = values + all, *const dvalues = dkeys + all;
  A *const rows = dvalues + all, *const columns = rows + one;     // queries
  A *const drows = columns + one, *const dcolumns = drows + one;  // gradient of the output
  A* const dq = dcolumns + one;
  A *const scores = dq + one, *const dscores = scores + kTile * kTile;
  A *const lse = dscores + kTile * kTile, *const delta = lse + kTile;
  A* const factors = delta + kTile;
  const std::int64_t width = head.width;
  pack_seen(keys, values, padded, head);
  for (std::int64_t i = 0; gradient.want_dkv && i < 2 * all; i += kLanes<A>)
    store(Full{}, dkeys + i, zero<A>());

  for (std::int64_t item = gradient.queries.first; item < head.group * tiles;
       item += gradient.queries.step) {
    const std::int64_t member = item / tiles;
    Pair<A> pair;
    take_queries(pair, head, item % tiles);
    const std::int64_t j0 = next_tile(pair, 0, gradient.keys);
    if (j0 == kNoTile) {
      for (std::int64_t row = 0; gradient.want_dq && row < pair.queries; ++row) {
        T* const to = gradient.dq + member * width + (pair.first_query + row) * gradient.dq_stride;
        each_vector<A>(width,
                       [&](auto some, std::int64_t i, int) { store(some, to + i, zero<A>()); });
      }
      continue;
    }
    pack<T, A>(rows, padded, head.q + member * width + pair.first_query * head.stride, head.stride,
               pair.queries, width, static_cast<A>(head.scale));
    transpose(columns, rows, padded, pair.queries, width);
    const std::int64_t at = member * width + pair.first_query * head.out_stride;
    pack<T, A>(drows, padded, gradient.dout + at, head.out_stride, pair.queries, width, A(1));
    transpose(dcolumns, drows, padded, pair.queries, width);
    for (std::int64_t row = 0; row < kTile; ++row) {
      lse[row] = delta[row] = 0;
      if (row >= pair.queries) continue;
      lse[row] = gradient.lse[(pair.first_query + row) * head.lse_stride + member];
      // Sees no key: any finite number works.
      if (lse[row] == kNothing<A>) lse[row] = 0;
      Sums<A> dots;
      each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
        dots[k] = MulAdd(load(some, gradient.out + at + row * head.out_stride + i),
                         vec(drows + row * padded + i), dots[k]);
      });
      delta[row] = total(dots);
    }
    for (std::int64_t j = j0; j != kNoTile; j = next_tile(pair, j + 1, gradient.keys)) {
      take_keys(pair, head, j);
      const std::int64_t key_at = pair.first_key * padded, offset = pair.offset();
      multiply<A>({.c = scores,
                   .ldc = kTile,
                   .a = keys + key_at,
                   .a_row = padded,
                   .b = columns,
                   .ldb = kTile,
                   .m = pair.keys,
                   .n = kTile,
                   .k = width,
                   .trim = Trim::kColumns,
                   .offset = offset});
      multiply<A>({.c = dscores,
                   .ldc = kTile,
                   .a = values + key_at,
                   .a_row = padded,
                   .b = dcolumns,
                   .ldb = kTile,
                   .m = pair.keys,
                   .n = kTile,
                   .k = width,
                   .trim = Trim::kColumns,
                   .offset = offset});
      if (head.dropout.words) {
        draw_factors(factors, head.dropout, member, pair);
        drop(dscores, factors, pair.keys);
      }
      const A cap = static_cast<A>(head.soft_cap);
      if (cap > 0) {
        cap_scores(scores, cap, pair);
        soften_backward<true>(scores, dscores, lse, delta, cap, pair);
      } else {
        soften_backward<false>(scores, dscores, lse, delta, A(1), pair);
      }
      if (head.dropout.words) drop(scores, factors, pair.keys);
      if (gradient.want_dkv) {
        multiply<A>({.c = dvalues + key_at,
                     .ldc = padded,
                     .a = scores,
                     .a_row = kTile,
                     .b = drows,
                     .ldb = padded,
                     .m = pair.keys,
                     .n = padded,
                     .k = pair.queries,
                     .add = true,
                     .trim = Trim::kEarlier,
                     .offset = offset});
        multiply<A>({.c = dkeys + key_at,
                     .ldc = padded,
                     .a = dscores,
                     .a_row = kTile,
                     .b = rows,
                     .ldb = padded,
                     .m = pair.keys,
                     .n = padded,
                     .k = pair.queries,
                     .add = true,
                     .trim = Trim::kEarlier,
                     .offset = offset});
      }
      if (gradient.want_dq) {
        multiply<A>({.c = dq,
                     .ldc = padded,
                     .a = dscores,
                     .a_row = 1,
                     .a_column = kTile,
                     .b = keys + key_at,
                     .ldb = padded,
                     .m = pair.queries,
                     .n = padded,
                     .k = pair.keys,
                     .add = j > j0,
                     .trim = Trim::kLater,
                     .offset = offset});
      }
    }
    const Vec<A> scale = spread(static_cast<A>(head.scale));
    for (std::int64_t row = 0; gradient.want_dq && row < pair.queries; ++row) {
      T* const to = gradient.dq + member * width + (pair.first_query + row) * gradient.dq_stride;
      each_vector<A>(width, [&](auto some, std::int64_t i, int) {
        store(some, to + i, vec(dq + row * padded + i) * scale);
      });
    }
  }
  if (!gradient.want_dkv) return;
  for (std::int64_t key = 0; key < head.keys; ++key) {
    if (key / kTile % gradient.keys.step != gradient.keys.first) continue;
    const std::int64_t to = key * gradient.dkv_stride;
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      store(some, gradient.dk + to + i, vec(dkeys + key * padded + i));
      store(some, gradient.dv + to + i, vec(dvalues + key * padded + i));
    });
  }
}

// dq and dkv of the part are those of dqkv where it has no keys and values of their own.
void attend_all_backward(Tensor workspace, const PartAttentionBackward& how,
                         const PartAttention& part, const AttentionShape& shape) {
  const Heads& heads = shape.heads;
  const std::int64_t group = heads.heads / heads.kv_heads, width = heads.width;
  const std::int64_t tiles = attention_tiles(shape.seq), key_tiles = attention_tiles(part.keys);
  const std::int64_t all = shape.batch * heads.kv_heads, threads = workspace.rows();
  const std::int64_t dq_stride = part.kv ? heads.query() : heads.qkv();
  const std::int64_t dkv_stride = part.kv ? 2 * heads.kv_heads * width : heads.qkv();
  const auto go = [&](std::int64_t shares, bool want_dq, bool want_dkv) {
    with_float(part.qkv.dtype, [&]<class T>(T) {
      each_share(shape, shares, workspace,
                 [&](std::int64_t batch, std::int64_t kv_head, std::int64_t share, Tensor mine) {
                   const std::int64_t row = batch * shape.seq, head = kv_head * group;
                   const std::int64_t out = row * heads.query() + head * width;
                   T* const dk = at<T>(how.dkv, batch * part.keys * dkv_stride + kv_head * width +
                                                    (part.kv ? 0 : heads.query()));
                   attend_backward<T>({.dq = at<T>(how.dq, row * dq_stride + head * width),
                                       .dk = dk,
                                       .dv = dk ? dk + heads.kv_heads * width : nullptr,
                                       .dq_stride = dq_stride,
                                       .dkv_stride = dkv_stride,
                                       .out = at<T>(how.out, out),
                                       .dout = at<T>(how.dout, out),
                                       .lse = at<Accumulator<T>>(how.lse, row * heads.heads + head),
                                       .queries = want_dkv ? Share{} : Share{share, shares},
                                       .keys = want_dkv ? Share{share, shares} : Share{},
                                       .want_dq = want_dq,
                                       .want_dkv = want_dkv},
                                      head_of<T>(part, shape, batch, kv_head),
                                      at<Accumulator<T>>(mine));
                 });
    });
  };
  // Whole heads take five products per pair of tiles. Splitting heads takes two passes and seven
  // products, which pays off if whole heads would leave threads idle.
  const std::int64_t rounds = (all + threads - 1) / threads;
  if (how.dq && how.dkv && 5 * rounds * threads <= 7 * all) return go(1, true, true);
  if (how.dkv) go(shares_for(all, threads, key_tiles), false, true);
  if (how.dq) go(shares_for(all, threads, group * tiles), true, false);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(attend_all_backward);

void attention_backward(Stream&, Tensor workspace, const AttentionBackward& how,
                        const AttentionShape& shape) {
  const PartAttention whole{
      .keys = shape.seq, .qkv = how.qkv, .kv = {}, .rows = {}, .first_seen = how.first_seen};
  const PartAttentionBackward gradient{
      .dq = how.dqkv, .dkv = how.dqkv, .dout = how.dout, .out = how.out, .lse = how.lse};
  HWY_DYNAMIC_DISPATCH(attend_all_backward)(workspace, gradient, whole, shape);
}
void part_attention_backward(Stream&, Tensor workspace, const PartAttentionBackward& how,
                             const PartAttention& part, const AttentionShape& shape) {
  HWY_DYNAMIC_DISPATCH(attend_all_backward)(workspace, how, part, shape);
}

// Accumulators of a head's workspace, aligned to 64 bytes.
template <class A>
std::int64_t head_workspace(std::int64_t keys, const AttentionShape& shape) {
  const std::int64_t tiles = attention_tiles(keys), tile = kAttentionTile;
  return tile * padded_width<A>(shape.heads.width) * (4 * tiles + 5) +
         (shape.dropout ? 3 : 2) * tile * tile + 2 * tile;
}

Shape attention_backward_workspace(Device, const AttentionShape& shape, DType dtype) {
  return part_attention_backward_workspace(shape.seq, shape, dtype);
}
Shape part_attention_backward_workspace(std::int64_t keys, const AttentionShape& shape,
                                        DType dtype) {
  return {threads_for(shape), dtype == DType::kF64 ? head_workspace<double>(keys, shape)
                                                   : head_workspace<float>(keys, shape)};
}

}  // namespace trireme::ops::cpu
#endif
