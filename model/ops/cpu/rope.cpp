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
  std::int64_t tokens = 0, stride = 0, heads = 0, width = 0, rotated = 0;
  bool backward = false;
};

template <class T>
TRIREME_KERNEL void rope_tokens(const RopeTokens<T>& op) {
  using A = Accumulator<T>;
  const std::int64_t half = op.rotated / 2;
  const Vec<A> sense = spread(op.backward ? A(-1) : A(1));
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const A* cosine = op.table + op.positions[token] * op.rotated;
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

// Each element is a cosine times itself plus a signed sine times the other of its pair.
template <class T>
TRIREME_KERNEL void rope_interleaved_tokens(const RopeTokens<T>& op) {
  using A = Accumulator<T>;
  constexpr std::int64_t kBlock = 256;
  HWY_ALIGN A cosines[kBlock], sines[kBlock];
  const A sense = op.backward ? A(-1) : A(1);
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const A* turn = op.table + op.positions[token] * op.rotated;
    for (std::int64_t first = 0; first < op.rotated; first += kBlock) {
      const std::int64_t n = op.rotated - first < kBlock ? op.rotated - first : kBlock;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t pair = (first + i) / 2;
        cosines[i] = turn[pair];
        sines[i] = (i % 2 == 0 ? -sense : sense) * turn[op.rotated / 2 + pair];
      }
      T* row = op.qkv + token * op.stride + first;
      for (std::int64_t head = 0; head < op.heads; ++head, row += op.width) {
        each_vector<A>(n, [&](auto some, std::int64_t i, int) {
          const Vec<A> v = load(some, row + i), other = Reverse2(Lanes<A>(), v);
          const Vec<A> turned = other * load(some, sines + i);
          store(some, row + i, MulAdd(v, load(some, cosines + i), turned));
        });
      }
    }
  }
}

void rope(Tensor qkv, Tensor positions, Tensor table, const Rope& op) {
  const Heads& heads = op.heads;
  with_float(qkv.dtype, [&]<class T>(T) {
    trireme::cpu::parallel_for(
        qkv.rows(), row_grain(heads.qkv()), [&](std::int64_t first, std::int64_t last) {
          const RopeTokens<T> tokens{.qkv = at<T>(qkv, first * heads.qkv()),
                                     .positions = at<std::int32_t>(positions, first),
                                     .table = at<Accumulator<T>>(table),
                                     .tokens = last - first,
                                     .stride = heads.qkv(),
                                     .heads = heads.heads + heads.kv_heads,
                                     .width = heads.width,
                                     .rotated = op.rotated,
                                     .backward = op.backward};
          if (op.interleaved) {
            rope_interleaved_tokens(tokens);
          } else {
            rope_tokens(tokens);
          }
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

void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Rope& op) {
  HWY_DYNAMIC_DISPATCH(rope)(qkv, positions, table, op);
}

}  // namespace trireme::ops::cpu
#endif
