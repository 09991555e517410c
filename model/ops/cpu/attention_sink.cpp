#include "model/ops/attention_sink.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/attention_sink.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

template <class T>
TRIREME_KERNEL void sink_heads(T* out, Accumulator<T>* lse, const T* sinks, std::int64_t heads,
                               std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t head = 0; head < heads; ++head, out += width) {
    const A sink = static_cast<A>(sinks[head]), above = sink - lse[head];
    // exp of the smaller of the two over the larger cannot overflow.
    const A ratio = __builtin_exp(above < 0 ? above : -above);
    const A share = (above < 0 ? A(1) : ratio) / (1 + ratio);
    lse[head] = (above < 0 ? lse[head] : sink) + static_cast<A>(__builtin_log1p(ratio));
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      store(some, out + i, load(some, out + i) * spread(share));
    });
  }
}

void attention_sink(Tensor out, Tensor lse, Tensor sinks, const Heads& heads) {
  with_float(out.dtype, [&]<class T>(T) {
    parallel_for(out.rows(), row_grain(heads.query()), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t token = first; token < last; ++token) {
        sink_heads(at<T>(out, token * heads.query()), at<Accumulator<T>>(lse, token * heads.heads),
                   at<T>(sinks), heads.heads, heads.width);
      }
    });
  });
}

template <class T>
TRIREME_KERNEL void sink_gradients(Accumulator<T>* partial, const T* dout, const T* out,
                                   const Accumulator<T>* lse, const T* sinks, std::int64_t heads,
                                   std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t head = 0; head < heads; ++head, dout += width, out += width) {
    Sums<A> dots;
    each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
      dots[k] = MulAdd(load(some, dout + i), load(some, out + i), dots[k]);
    });
    const A share = __builtin_exp(static_cast<A>(sinks[head]) - lse[head]);
    partial[head] = -share * total(dots);
  }
}

void attention_sink_backward(Tensor partial, const AttentionSinkBackward& how) {
  const Heads& heads = how.heads;
  with_float(how.out.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    parallel_for(
        how.out.rows(), row_grain(heads.query()), [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t token = first; token < last; ++token) {
            const std::int64_t row = token * heads.query(), statistic = token * heads.heads;
            sink_gradients(at<A>(partial, statistic), at<T>(how.dout, row), at<T>(how.out, row),
                           at<A>(how.lse, statistic), at<T>(how.sinks), heads.heads, heads.width);
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

HWY_EXPORT(attention_sink);
HWY_EXPORT(attention_sink_backward);

void attention_sink(Stream&, Tensor out, Tensor lse, Tensor sinks, const Heads& heads) {
  HWY_DYNAMIC_DISPATCH(attention_sink)(out, lse, sinks, heads);
}
void attention_sink_backward(Stream&, Tensor partial, const AttentionSinkBackward& how) {
  HWY_DYNAMIC_DISPATCH(attention_sink_backward)(partial, how);
}

}  // namespace trireme::ops::cpu
#endif
