#include "model/ops/cpu/attention.h"

#include <cmath>
#include <cstring>

#include "model/device/memory.h"

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

// Attention of one query to `keys` rows of a cache: out [width]. `workspace` has padded_width
// elements.
template <class T>
struct CachedQuery {
  T* out = nullptr;
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t stride = 0, keys = 0, width = 0;
  double scale = 1;
};

template <class T>
TRIREME_KERNEL void attend(T* out, Accumulator<T>* lse, const AttentionHead<T>& head, Share queries,
                           Accumulator<T>* workspace) {
  using A = Accumulator<T>;
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
      top[i] = kNothing<A>;
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
      const A inverse = A(1) / sum[row];
      T* const to = out + member * head.width + token * head.out_stride;
      each_vector<A>(head.width, [&](auto some, std::int64_t i, int) {
        store(some, to + i, vec(rows + row * padded + i) * spread(inverse));
      });
      lse[token * head.lse_stride + member] = top[row] + std::log(sum[row]);
    }
  }
}

template <class T>
TRIREME_KERNEL void attend_cached(const CachedQuery<T>& query, Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  A top = kNothing<A>, sum = 0;
  for (std::int64_t first = 0; first < query.keys; first += kTile) {
    const std::int64_t keys = least(kTile, query.keys - first);
    A scores[kTile];
    A now = top;
    for (std::int64_t key = 0; key < kTile; ++key) {
      scores[key] = kNothing<A>;
      if (key >= keys) continue;
      Sums<A> dots;
      const T* const row = query.k + (first + key) * query.stride;
      each_vector<A>(query.width, [&](auto some, std::int64_t i, int k) {
        dots[k] = MulAdd(load(some, query.q + i), load(some, row + i), dots[k]);
      });
      scores[key] = total(dots) * static_cast<A>(query.scale);
      now = scores[key] > now ? scores[key] : now;
    }
    Sums<A> totals;
    for (std::int64_t i = 0; i < kTile; i += kLanes<A>) {
      const Vec<A> p = exp<A>(vec(scores + i) - spread(now));
      totals[0] += p;
      store(Full{}, scores + i, p);
    }
    const A shrink = GetLane(exp<A>(spread(top - now)));
    sum = sum * shrink + total(totals);
    top = now;
    each_vector<A>(query.width, [&](auto some, std::int64_t i, int) {
      Vec<A> mixed = first == 0 ? zero<A>() : vec(workspace + i) * spread(shrink);
      for (std::int64_t key = 0; key < keys; ++key)
        mixed = MulAdd(load(some, query.v + (first + key) * query.stride + i), spread(scores[key]),
                       mixed);
      store(Full{}, workspace + i, mixed);
    });
  }
  each_vector<A>(query.width, [&](auto some, std::int64_t i, int) {
    store(some, query.out + i, vec(workspace + i) * spread(A(1) / sum));
  });
}

void attention(Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape& shape) {
  const std::int64_t group = shape.heads.heads / shape.heads.kv_heads;
  const std::int64_t shares = shares_for(shape.batch * shape.heads.kv_heads, workspace.rows(),
                                         group * attention_tiles(shape.seq));
  with_float(qkv.dtype, [&]<class T>(T) {
    each_share(shape, shares, workspace,
               [&](std::int64_t batch, std::int64_t kv_head, std::int64_t share, Tensor mine) {
                 const std::int64_t row = batch * shape.seq, head = kv_head * group;
                 attend(at<T>(out, row * shape.heads.query() + head * shape.heads.width),
                        at<Accumulator<T>>(lse, row * shape.heads.heads + head),
                        head_of<T>(qkv, document_start, shape, batch, kv_head), {share, shares},
                        at<Accumulator<T>>(mine));
               });
  });
}

void attention_cached(Tensor out, Tensor qkv, Tensor keys, Tensor values, std::int64_t first,
                      const Heads& heads, double scale) {
  const std::int64_t tokens = qkv.rows(), width = heads.kv_heads * heads.width;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * size_of(qkv.dtype);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Tensor row = qkv.row_slice(token, 1);
    std::memcpy(keys.row_slice(first + token, 1).data, row.slice(heads.query(), width).data,
                row_bytes);
    std::memcpy(values.row_slice(first + token, 1).data,
                row.slice(heads.query() + width, width).data, row_bytes);
  }
  const std::int64_t tasks = tokens * heads.heads, group = heads.heads / heads.kv_heads;
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), tasks));
  with_float(qkv.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t padded = padded_width<A>(heads.width);
    const Memory sums(static_cast<std::size_t>(threads * padded) * sizeof(A), Device{});
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t token = task / heads.heads, head = task % heads.heads;
      const std::int64_t kv = head / group * heads.width;
      attend_cached<T>({.out = at<T>(out, token * heads.query() + head * heads.width),
                        .q = at<T>(qkv, token * heads.qkv() + head * heads.width),
                        .k = at<T>(keys, kv),
                        .v = at<T>(values, kv),
                        .stride = width,
                        .keys = first + token + 1,
                        .width = heads.width,
                        .scale = scale},
                       reinterpret_cast<A*>(sums.data()) + omp_get_thread_num() * padded);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(attention);
HWY_EXPORT(attention_cached);

void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape& shape) {
  HWY_DYNAMIC_DISPATCH(attention)(workspace, out, lse, qkv, document_start, shape);
}
void attention_cached(Stream&, Tensor, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads& heads, double scale) {
  HWY_DYNAMIC_DISPATCH(attention_cached)(out, qkv, keys, values, first, heads, scale);
}

// Accumulators of a head's workspace, aligned to 64 bytes.
template <class A>
constexpr std::int64_t head_workspace(std::int64_t seq, std::int64_t width) {
  const std::int64_t tiles = attention_tiles(seq), tile = kAttentionTile;
  return tile * padded_width<A>(width) * (2 * tiles + 2) + tile * tile + 3 * tile;
}

Shape attention_workspace(Device, const AttentionShape& shape, DType dtype) {
  const std::int64_t seq = shape.seq, width = shape.heads.width;
  return {threads_for(shape), dtype == DType::kF64 ? head_workspace<double>(seq, width)
                                                   : head_workspace<float>(seq, width)};
}

}  // namespace trireme::ops::cpu
#endif
