#include "model/ops/cpu/simd/attention.h"

#include "model/ops/cpu/simd/attention_tile.h"

namespace trireme::simd {
namespace {

TRIREME_INLINE float log(float x) {
  return __builtin_logf(x);
}
TRIREME_INLINE double log(double x) {
  return __builtin_log(x);
}

// scores [kTile keys, kTile queries] = exp(score - running maximum); updates sums and maxima;
// `shrink` rescales earlier sums.
template <class A>
__attribute__((noinline, flatten)) void soften(A* scores, A* top, A* sum, A* shrink,
                                               const Pair<A>& pair) {
  for (std::int64_t lane = 0; lane < kTile; lane += kLanes<A>) {
    A* column = scores + lane;
    const Vec<A> old = vec(top + lane);
    Vec<A> now = old;
    each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> s = see(vec(column + key * kTile));
      now = s > now ? s : now;
    });
    // No visible key yet: any finite number works, as all terms are zero.
    const Vec<A> base = now == -static_cast<A>(__builtin_inff()) ? Vec<A>{} : now;
    Vec<A> total{};
    const std::int64_t end = each_key(pair, lane, [&](std::int64_t key, auto see) {
      const Vec<A> p = exp(see(vec(column + key * kTile)) - base);
      total += p;
      write(Full{}, column + key * kTile, p);
    });
    for (std::int64_t key = most(end, 0); key < pair.keys; ++key)
      write(Full{}, column + key * kTile, Vec<A>{});
    const Vec<A> factor = exp(old - base);
    write(Full{}, top + lane, now);
    write(Full{}, shrink + lane, factor);
    write(Full{}, sum + lane, fma(vec(sum + lane), factor, total));
  }
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void attention(T* out, Sum<T>* lse, const AttentionHead<T>& head, Share queries,
                              Sum<T>* workspace) {
  using A = Sum<T>;
  const std::int64_t padded = padded_width<A>(head.width), tiles = attention_tiles(head.seq);
  A* const keys = workspace;
  A* const values = keys + tiles * kTile * padded;
  A* const rows = values + tiles * kTile * padded;  // queries, then their sums of values
  A* const columns = rows + kTile * padded;         // queries, transposed
  A* const scores = columns + kTile * padded;
  A *const top = scores + kTile * kTile, *const sum = top + kTile, *const seen = sum + kTile;
  A shrink[kTile];
  pack<T, A>(keys, padded, head.k, head.stride, head.seq, head.width, A(1));
  pack<T, A>(values, padded, head.v, head.stride, head.seq, head.width, A(1));
  for (std::int64_t item = queries.first; item < head.group * tiles; item += queries.step) {
    const std::int64_t member = item / tiles, tile = item % tiles;
    Pair<A> pair{};
    pair.first_seen = seen;
    pair.first_query = tile * kTile;
    pair.queries = least(kTile, head.seq - pair.first_query);
    load_first_seen(seen, head.document_start + pair.first_query, pair.queries);
    pack<T, A>(rows, padded, head.q + member * head.width + pair.first_query * head.stride,
               head.stride, pair.queries, head.width, static_cast<A>(head.scale));
    transpose(columns, rows, padded, pair.queries, head.width);
    for (std::int64_t i = 0; i < kTile; ++i) {
      top[i] = -static_cast<A>(__builtin_inff());
      sum[i] = 0;
    }
    const std::int64_t start = head.document_start[pair.first_query] / kTile;
    for (std::int64_t j = start; j <= tile; ++j) {
      pair.first_key = j * kTile;
      pair.keys = least(kTile, head.seq - pair.first_key);
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
      soften(scores, top, sum, shrink, pair);
      if (j > start) {
        for (std::int64_t row = 0; row < pair.queries; ++row) {
          if (shrink[row] == 1) continue;
          for (std::int64_t i = 0; i < padded; i += kLanes<A>)
            write(Full{}, rows + row * padded + i, vec(rows + row * padded + i) * shrink[row]);
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
      const A inverse = A(1) / sum[row];
      T* const to = out + member * head.width + token * head.out_stride;
      each_vector<A>(head.width, [&](auto some, std::int64_t i, int) {
        store(some, to + i, vec(rows + row * padded + i) * inverse);
      });
      lse[token * head.lse_stride + member] = top[row] + log(sum[row]);
    }
  }
}

template <Isa isa, class T>
TRIREME_KERNEL void attention_cached(const CachedQuery<T>& query, Sum<T>* workspace) {
  using A = Sum<T>;
  const A none = -static_cast<A>(__builtin_inff());
  A top = none, sum = 0;
  for (std::int64_t first = 0; first < query.keys; first += kTile) {
    const std::int64_t keys = least(kTile, query.keys - first);
    A scores[kTile];
    A now = top;
    for (std::int64_t key = 0; key < kTile; ++key) {
      scores[key] = none;
      if (key >= keys) continue;
      Vec<A> dots[4] = {};
      const T* const row = query.k + (first + key) * query.stride;
      each_vector<A>(query.width, [&](auto some, std::int64_t i, int k) {
        dots[k] = fma(load(some, query.q + i), load(some, row + i), dots[k]);
      });
      scores[key] = total<A>(dots) * static_cast<A>(query.scale);
      now = scores[key] > now ? scores[key] : now;
    }
    Vec<A> totals[4] = {};
    for (std::int64_t i = 0; i < kTile; i += kLanes<A>) {
      const Vec<A> p = exp(vec(scores + i) - now);
      totals[0] += p;
      write(Full{}, scores + i, p);
    }
    const A shrink = exp(spread(top - now))[0];
    sum = sum * shrink + total<A>(totals);
    top = now;
    each_vector<A>(query.width, [&](auto some, std::int64_t i, int) {
      Vec<A> mixed = first == 0 ? Vec<A>{} : vec(workspace + i) * shrink;
      for (std::int64_t key = 0; key < keys; ++key)
        mixed =
            fma(load(some, query.v + (first + key) * query.stride + i), spread(scores[key]), mixed);
      write(Full{}, workspace + i, mixed);
    });
  }
  each_vector<A>(query.width, [&](auto some, std::int64_t i, int) {
    store(some, query.out + i, vec(workspace + i) * (A(1) / sum));
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define TRIREME_INSTANCE(T)                                                               \
  template void attention<kIsa, T>(T*, Sum<T>*, const AttentionHead<T>&, Share, Sum<T>*); \
  template void attention_cached<kIsa, T>(const CachedQuery<T>&, Sum<T>*);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
