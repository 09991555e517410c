#include "model/ops/cpu/simd/attention.h"

#include "model/ops/cpu/simd/attention_tile.h"

namespace trireme::simd {
namespace {

// scores = probabilities p; dp, the gradient of p, becomes p (dp - delta).
template <class A>
__attribute__((noinline, flatten)) void soften_backward(A* scores, A* dp, const A* lse,
                                                        const A* delta, const Pair<A>& pair) {
  for (std::int64_t lane = 0; lane < kTile; lane += kLanes<A>) {
    A *column = scores + lane, *gradient = dp + lane;
    const Vec<A> base = vec(lse + lane), mean = vec(delta + lane);
    const std::int64_t end = each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> p = exp(see(vec(column + key * kTile)) - base);
      write(Full{}, column + key * kTile, p);
      write(Full{}, gradient + key * kTile, p * (vec(gradient + key * kTile) - mean));
    });
    for (std::int64_t key = most(end, 0); key < pair.keys; ++key) {
      write(Full{}, column + key * kTile, Vec<A>{});
      write(Full{}, gradient + key * kTile, Vec<A>{});
    }
  }
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void attention_backward(const AttentionGradient<T>& gradient,
                                       const AttentionHead<T>& head, Sum<T>* workspace) {
  using A = Sum<T>;
  const std::int64_t padded = padded_width<A>(head.width), tiles = attention_tiles(head.seq);
  const std::int64_t all = tiles * kTile * padded, one = kTile * padded;
  A *const keys = workspace, *const values = keys + all;
  A *const dkeys = values + all, *const dvalues = dkeys + all;
  A *const rows = dvalues + all, *const columns = rows + one;     // queries
  A *const drows = columns + one, *const dcolumns = drows + one;  // gradient of the output
  A* const dq = dcolumns + one;
  A *const scores = dq + one, *const dscores = scores + kTile * kTile;
  A *const lse = dscores + kTile * kTile, *const delta = lse + kTile, *const seen = delta + kTile;
  const std::int64_t stride = head.stride, width = head.width;
  pack<T, A>(keys, padded, head.k, stride, head.seq, width, A(1));
  pack<T, A>(values, padded, head.v, stride, head.seq, width, A(1));
  for (std::int64_t i = 0; gradient.want_dkv && i < 2 * all; i += kLanes<A>)
    write(Full{}, dkeys + i, Vec<A>{});

  for (std::int64_t item = gradient.queries.first; item < head.group * tiles;
       item += gradient.queries.step) {
    const std::int64_t member = item / tiles, tile = item % tiles;
    Pair<A> pair{};
    pair.first_seen = seen;
    pair.first_query = tile * kTile;
    pair.queries = least(kTile, head.seq - pair.first_query);
    const std::int64_t start = head.document_start[pair.first_query] / kTile;
    const std::int64_t step = gradient.keys.step;
    const std::int64_t j0 = start + (gradient.keys.first + step - start % step) % step;
    if (j0 > tile) continue;
    load_first_seen(seen, head.document_start + pair.first_query, pair.queries);
    pack<T, A>(rows, padded, head.q + member * width + pair.first_query * stride, stride,
               pair.queries, width, static_cast<A>(head.scale));
    transpose(columns, rows, padded, pair.queries, width);
    const std::int64_t at = member * width + pair.first_query * head.out_stride;
    pack<T, A>(drows, padded, gradient.dout + at, head.out_stride, pair.queries, width, A(1));
    transpose(dcolumns, drows, padded, pair.queries, width);
    for (std::int64_t row = 0; row < kTile; ++row) {
      lse[row] = delta[row] = 0;
      if (row >= pair.queries) continue;
      lse[row] = gradient.lse[(pair.first_query + row) * head.lse_stride + member];
      Vec<A> dots[4] = {};
      each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
        dots[k] = fma(load(some, gradient.out + at + row * head.out_stride + i),
                      vec(drows + row * padded + i), dots[k]);
      });
      delta[row] = total<A>(dots);
    }
    for (std::int64_t j = j0; j <= tile; j += step) {
      pair.first_key = j * kTile;
      pair.keys = least(kTile, head.seq - pair.first_key);
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
      soften_backward(scores, dscores, lse, delta, pair);
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
    for (std::int64_t row = 0; gradient.want_dq && row < pair.queries; ++row) {
      T* const to = gradient.dq + member * width + (pair.first_query + row) * stride;
      each_vector<A>(width, [&](auto some, std::int64_t i, int) {
        store(some, to + i, vec(dq + row * padded + i) * static_cast<A>(head.scale));
      });
    }
  }
  if (!gradient.want_dkv) return;
  for (std::int64_t token = 0; token < head.seq; ++token) {
    if (token / kTile % gradient.keys.step != gradient.keys.first) continue;
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      store(some, gradient.dk + token * stride + i, vec(dkeys + token * padded + i));
      store(some, gradient.dv + token * stride + i, vec(dvalues + token * padded + i));
    });
  }
}

#define TRIREME_INSTANCE(T)                                                                       \
  template void attention_backward<kIsa, T>(const AttentionGradient<T>&, const AttentionHead<T>&, \
                                            Sum<T>*);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
