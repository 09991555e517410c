// Included by kernel sources after targets.h, once per target. Common parts of attention and
// its backward: tiles of a head and causal masking. Scores are stored transposed, [keys, queries],
// so that a query's maximum and sum are per lane and no horizontal reduction is needed.
#if defined(TRIREME_OPS_CPU_SIMD_ATTENTION_TILE) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_ATTENTION_TILE
#undef TRIREME_OPS_CPU_SIMD_ATTENTION_TILE
#else
#define TRIREME_OPS_CPU_SIMD_ATTENTION_TILE
#endif

#include <limits>

#include "model/ops/cpu/attention_head.h"
#include "model/ops/cpu/simd/exp.h"
#include "model/ops/cpu/simd/philox.h"
#include "model/ops/cpu/simd/product.h"
#include "model/ops/cpu/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

inline constexpr std::int64_t kTile = kAttentionTile;

HWY_INLINE std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
HWY_INLINE std::int64_t most(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

template <class A>
HWY_INLINE Vec<A> vec(const A* p) {
  return LoadU(Lanes<A>(), p);
}

// Copies rows of a head, dense and zero-padded to `padded`.
template <class T, class A>
TRIREME_KERNEL void pack(A* to, std::int64_t padded, const T* from, std::int64_t stride,
                         std::int64_t rows, std::int64_t width, A factor) {
  for (std::int64_t row = 0; row < rows; ++row, to += padded, from += stride) {
    const auto one_vector = [&](auto some, std::int64_t i, int) {
      store(Full{}, to + i, load(some, from + i) * spread(factor));
    };
    each_vector<A>(width, one_vector);
    const std::int64_t done = (width + kLanes<A> - 1) / kLanes<A> * kLanes<A>;
    for (std::int64_t i = done; i < padded; i += kLanes<A>) store(Full{}, to + i, zero<A>());
  }
}

// Transposes a tile's rows [rows, padded] to columns [width, kTile], zero-padded.
template <class A>
TRIREME_KERNEL void transpose(A* to, const A* from, std::int64_t padded, std::int64_t rows,
                              std::int64_t width) {
  constexpr int kPart = kQuad<A>;
  const hn::CappedTag<A, kPart> part;
  for (std::int64_t column = 0; column < width; column += kPart) {
    for (std::int64_t first = 0; first < kTile; first += kLanes<A>) {
      Vec<A> columns[kPart];
      transpose<A>(columns, [&](int i) {
        const std::int64_t row = first + i;
        return row < rows ? LoadU(part, from + row * padded + column) : Zero(part);
      });
#pragma GCC unroll 4
      for (int j = 0; j < kPart; ++j)
        if (column + j < width) store(Full{}, to + (column + j) * kTile + first, columns[j]);
    }
  }
}

// The score of an invisible key.
template <class A>
constexpr A kNothing = -std::numeric_limits<A>::infinity();

// One tile of queries with one tile of keys.
template <class A>
struct Pair {
  A first[kTile], last[kTile];  // the keys that a query sees; neither decreases
  std::int64_t first_query;
  std::int64_t queries;  // in the tile
  std::int64_t reach;    // query q of the tile sees no key after q + reach
  std::int64_t first_key;
  std::int64_t keys;  // in the tile
  std::int64_t offset() const { return reach - first_key; }
};

template <class A, class T>
TRIREME_KERNEL void take_queries(Pair<A>& pair, const AttentionHead<T>& head, std::int64_t tile) {
  pair.first_query = tile * kTile;
  pair.queries = least(kTile, head.seq - pair.first_query);
  pair.reach = -kTile;
  for (std::int64_t query = 0; query < pair.queries; ++query) {
    const std::int64_t last = head.end_key(pair.first_query + query) - 1;
    pair.first[query] = static_cast<A>(head.first_key(pair.first_query + query));
    pair.last[query] = static_cast<A>(last);
    pair.reach = most(pair.reach, last - query);
  }
  for (std::int64_t query = pair.queries; query < kTile; ++query) {
    pair.first[query] = pair.first[pair.queries - 1];
    pair.last[query] = pair.last[pair.queries - 1];
  }
}
template <class A, class T>
HWY_INLINE void take_keys(Pair<A>& pair, const AttentionHead<T>& head, std::int64_t tile) {
  pair.first_key = tile * kTile;
  pair.keys = least(kTile, head.keys - pair.first_key);
}

// The first tile of keys of a share, from this one on, of which a query sees a key.
inline constexpr std::int64_t kNoTile = std::numeric_limits<std::int64_t>::max();
template <class A>
HWY_INLINE std::int64_t next_tile(const Pair<A>& pair, std::int64_t from, Share share = {}) {
  for (std::int64_t query = 0; query < pair.queries;) {
    const auto first = static_cast<std::int64_t>(pair.first[query]);
    if (static_cast<std::int64_t>(pair.last[query]) < most(first, from * kTile)) {
      ++query;
      continue;
    }
    const std::int64_t tile = most(first / kTile, from);
    if (tile % share.step == share.first) return tile;
    from = tile + 1;
  }
  return kNoTile;
}

// Packs the keys and values of a head that any query sees, by whole tiles.
template <class A, class T>
TRIREME_KERNEL void pack_seen(A* keys, A* values, std::int64_t padded,
                              const AttentionHead<T>& head) {
  const std::int64_t first = head.first_key(0) / kTile * kTile;
  const std::int64_t rows = head.end_key(head.seq - 1) - first;
  pack<T, A>(keys + first * padded, padded, head.k + first * head.kv_stride, head.kv_stride, rows,
             head.width, A(1));
  pack<T, A>(values + first * padded, padded, head.v + first * head.kv_stride, head.kv_stride, rows,
             head.width, A(1));
}

// Calls body(key, see) for the keys visible to any query of the vector `lane`; see(s) sets
// invisible scores to minus infinity. Returns the end.
template <class A, class Body>
HWY_INLINE std::int64_t each_key(const Pair<A>& pair, std::int64_t lane, const Body& body) {
  const std::int64_t latest = lane + kLanes<A> - 1;
  const auto in_tile = [&](A key) { return static_cast<std::int64_t>(key) - pair.first_key; };
  const std::int64_t end = least(pair.keys, in_tile(pair.last[latest]) + 1);
  // Keys before `late` are invisible to some query; those up to `full` are not too late for any.
  const std::int64_t late = least(end, in_tile(pair.first[latest]));
  const std::int64_t full = least(end, in_tile(pair.last[lane]) + 1);
  const Vec<A> base = spread(static_cast<A>(pair.first_key));
  const Vec<A> first = vec(pair.first + lane) - base, last = vec(pair.last + lane) - base;
  const auto masked = [&](std::int64_t key) {
    return [=](Vec<A> s) {
      const Vec<A> k = spread(static_cast<A>(key));
      return IfThenElse(And(k >= first, k <= last), s, spread(kNothing<A>));
    };
  };
  std::int64_t key = 0;
  for (; key < late; ++key) body(key, masked(key));
  for (; key < full; ++key) body(key, [](Vec<A> s) { return s; });
  for (; key < end; ++key) body(key, masked(key));
  return end;
}

// Scores become cap tanh(score / cap).
template <class A>
TRIREME_KERNEL void cap_scores(A* scores, A cap, const Pair<A>& pair) {
  const Vec<A> limit = spread(cap), inverse = spread(1 / cap);
  for (std::int64_t lane = 0; lane < kTile; lane += kLanes<A>) {
    each_key(pair, lane, [&](std::int64_t key, auto) {
      A* const score = scores + key * kTile + lane;
      store(Full{}, score, limit * tanh<A>(vec(score) * inverse));
    });
  }
}

// factors [kTile keys, kTile queries] of a query head's probabilities: zero for those dropped.
template <class A>
TRIREME_KERNEL void draw_factors(A* factors, const HeadDropout& how, std::int64_t head,
                                 const Pair<A>& pair) {
  static_assert(kTile == kQuads);
  const auto of_head = static_cast<std::uint64_t>(how.first_head + head) << 32;
  const auto word_of = [&](int query) -> std::uint64_t {
    return query < pair.queries ? static_cast<std::uint32_t>(how.words[pair.first_query + query])
                                : 0;
  };
  const A kept = static_cast<A>(how.scale);
  // A draw has pair `two` of every eight keys of 32.
  for (std::int64_t first = 0; first < pair.keys; first += 32) {
    for (int two = 0; two < 4; ++two) {
      const auto counter =
          of_head | static_cast<std::uint64_t>((pair.first_key + first) / 32 * 4 + two);
      Words4 random;
      random.draw_each(
          how.key, [=](int) { return counter; }, word_of);
      for (int w = 0; w < 4; ++w) {
        A* const to = factors + (first + 8 * w + 2 * two) * kTile;
        for (int query = 0; query < kTile; ++query) {
          const std::uint32_t bits = random.word[w][query];
          to[query] = (bits & 0xffff) < how.dropped ? A(0) : kept;
          to[kTile + query] = (bits >> 16) < how.dropped ? A(0) : kept;
        }
      }
    }
  }
}

// A tile [keys, kTile] times the factors.
template <class A>
TRIREME_KERNEL void drop(A* tile, const A* factors, std::int64_t keys) {
  for (std::int64_t i = 0; i < keys * kTile; i += kLanes<A>)
    store(Full{}, tile + i, vec(tile + i) * vec(factors + i));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
