#include <cstring>

#include "model/device/memory.h"
#include "model/ops/cpu/attention.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/attention_cached.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// Attention of one query to the tokens [first, end) of a cache: out [width].
template <class T>
struct CachedQuery {
  T* out = nullptr;
  const T *q = nullptr, *k = nullptr, *v = nullptr, *sink = nullptr;
  std::int64_t stride = 0, capacity = 0, first = 0, end = 0, width = 0;
  double scale = 1, soft_cap = 0;
};

// `workspace` has padded_width elements.
template <class T>
TRIREME_KERNEL void attend_cached(const CachedQuery<T>& query, Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  const A cap = static_cast<A>(query.soft_cap);
  A top = kNothing<A>, sum = 0;
  for (std::int64_t token = query.first, keys = 0; token < query.end; token += keys) {
    // A tile ends where the ring does.
    const std::int64_t row = token % query.capacity;
    keys = least(kTile, least(query.end - token, query.capacity - row));
    const T *const k = query.k + row * query.stride, *const v = query.v + row * query.stride;
    A scores[kTile];
    A now = top;
    for (std::int64_t key = 0; key < kTile; ++key) {
      scores[key] = kNothing<A>;
      if (key >= keys) continue;
      Sums<A> dots;
      each_vector<A>(query.width, [&](auto some, std::int64_t i, int part) {
        dots[part] =
            MulAdd(load(some, query.q + i), load(some, k + key * query.stride + i), dots[part]);
      });
      scores[key] = total(dots) * static_cast<A>(query.scale);
      if (cap > 0) scores[key] = cap * GetLane(tanh<A>(spread(scores[key] / cap)));
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
      Vec<A> mixed = token == query.first ? zero<A>() : vec(workspace + i) * spread(shrink);
      for (std::int64_t key = 0; key < keys; ++key)
        mixed = MulAdd(load(some, v + key * query.stride + i), spread(scores[key]), mixed);
      store(Full{}, workspace + i, mixed);
    });
  }
  if (query.sink) sum += GetLane(exp<A>(spread(static_cast<A>(*query.sink) - top)));
  each_vector<A>(query.width, [&](auto some, std::int64_t i, int) {
    store(some, query.out + i, vec(workspace + i) * spread(A(1) / sum));
  });
}

void attention_cached(const CachedAttention& how) {
  const Heads& heads = how.heads;
  const std::int64_t tokens = how.qkv.rows(), capacity = how.keys.rows();
  const std::int64_t width = heads.kv_heads * heads.width;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * size_of(how.qkv.dtype);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Tensor row = how.qkv.row_slice(token, 1);
    const std::int64_t at = (how.first + token) % capacity;
    std::memcpy(how.keys.row_slice(at, 1).data, row.slice(heads.query(), width).data, row_bytes);
    std::memcpy(how.values.row_slice(at, 1).data, row.slice(heads.query() + width, width).data,
                row_bytes);
  }
  const std::int64_t tasks = tokens * heads.heads, group = heads.heads / heads.kv_heads;
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), tasks));
  with_float(how.qkv.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t padded = padded_width<A>(heads.width);
    const Memory sums(static_cast<std::size_t>(threads * padded) * sizeof(A), Device{});
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t token = task / heads.heads, head = task % heads.heads;
      const std::int64_t kv = head / group * heads.width, end = how.first + token + 1;
      attend_cached<T>({.out = at<T>(how.out, token * heads.query() + head * heads.width),
                        .q = at<T>(how.qkv, token * heads.qkv() + head * heads.width),
                        .k = at<T>(how.keys, kv),
                        .v = at<T>(how.values, kv),
                        .sink = at<T>(how.sinks, head),
                        .stride = width,
                        .capacity = capacity,
                        .first = how.window > 0 ? most(end - how.window, 0) : 0,
                        .end = end,
                        .width = heads.width,
                        .scale = how.scale,
                        .soft_cap = how.soft_cap},
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

HWY_EXPORT(attention_cached);

void attention_cached(Stream&, Tensor, const CachedAttention& how) {
  HWY_DYNAMIC_DISPATCH(attention_cached)(how);
}

}  // namespace trireme::ops::cpu
#endif
