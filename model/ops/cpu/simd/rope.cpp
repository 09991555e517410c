#include "model/ops/cpu/simd/rope.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {

template <Isa isa, class T>
TRIREME_KERNEL void rope(const RopeTokens<T>& op) {
  using A = Sum<T>;
  const std::int64_t half = op.width / 2;
  const A sense = op.backward ? A(-1) : A(1);
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const A* cosine = op.table + op.positions[token] * op.width;
    const A* sine = cosine + half;
    T* low = op.qkv + token * op.stride;
    for (std::int64_t head = 0; head < op.heads; ++head, low += op.width) {
      T* high = low + half;
      each_vector<A>(half, [&](auto some, std::int64_t i, int) {
        const Vec<A> c = load_as<A>(some, cosine + i), s = sense * load_as<A>(some, sine + i);
        const Vec<A> a = load(some, low + i), b = load(some, high + i);
        store(some, low + i, fma(a, c, -(b * s)));
        store(some, high + i, fma(b, c, a * s));
      });
    }
  }
}

#define TRIREME_INSTANCE(T) template void rope<kIsa, T>(const RopeTokens<T>&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
