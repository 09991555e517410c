#include "model/ops/rope.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/rope.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct RopeTokens {
  T* qkv = nullptr;  // [tokens, stride]; rotates the first `heads` heads
  const std::int32_t* positions = nullptr;
  const Accumulator<T>* table = nullptr;
  std::int64_t tokens = 0, stride = 0, heads = 0, width = 0;
  bool backward = false;
};

template <class T>
TRIREME_KERNEL void rope_tokens(const RopeTokens<T>& op) {
  using A = Accumulator<T>;
  const std::int64_t half = op.width / 2;
  const Vec<A> sense = spread(op.backward ? A(-1) : A(1));
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const A* cosine = op.table + op.positions[token] * op.width;
    const A* sine = cosine + half;
    T* low = op.qkv + token * op.stride;
    for (std::int64_t head = 0; head < op.heads; ++head, low += op.width) {
      T* high = low + half;
      each_vector<A>(half, [&](auto some, std::int64_t i, int) {
        const Vec<A> c = load(some, cosine + i), s = sense * load(some, sine + i);
        const Vec<A> a = load(some, low + i), b = load(some, high + i);
        store(some, low + i, MulSub(a, c, b * s));
        store(some, high + i, MulAdd(b, c, a * s));
      });
    }
  }
}

void rope(Tensor qkv, Tensor positions, Tensor table, const Heads& heads, bool backward) {
  with_float(qkv.dtype, [&]<class T>(T) {
    trireme::cpu::parallel_for(qkv.rows(), row_grain(heads.qkv()),
                               [&](std::int64_t first, std::int64_t last) {
                                 rope_tokens<T>({.qkv = at<T>(qkv, first * heads.qkv()),
                                                 .positions = at<std::int32_t>(positions, first),
                                                 .table = at<Accumulator<T>>(table),
                                                 .tokens = last - first,
                                                 .stride = heads.qkv(),
                                                 .heads = heads.heads + heads.kv_heads,
                                                 .width = heads.width,
                                                 .backward = backward});
                               });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(rope);

void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads& heads, bool backward) {
  HWY_DYNAMIC_DISPATCH(rope)(qkv, positions, table, heads, backward);
}

}  // namespace trireme::ops::cpu
#endif
