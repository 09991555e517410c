#include "model/ops/head_norm.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/head_norm.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/column_sums.h"
#include "model/ops/cpu/simd/norm_row.h"
#include "model/ops/row_chunks.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// RMSNorm of the query heads and key heads in rows of qkv.
template <class T>
struct HeadNormTokens {
  T* y = nullptr;
  Accumulator<T>* inverse = nullptr;  // [tokens, heads + kv_heads]
  const T* x = nullptr;
  Gain<T> query_gain, key_gain;
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, width = 0;
  double epsilon = 0;
};

template <class T>
struct HeadNormBackwardTokens {
  T* dqkv = nullptr;                                           // in place
  Accumulator<T>*dquery_gain = nullptr, *dkey_gain = nullptr;  // [width], replaced by sums
  const T* x = nullptr;
  Gain<T> query_gain, key_gain;
  const Accumulator<T>* inverse = nullptr;
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, width = 0;
};

template <class T>
TRIREME_KERNEL void head_norm_tokens(const HeadNormTokens<T>& op) {
  const std::int64_t normed = op.heads + op.kv_heads;
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const std::int64_t start = token * (normed + op.kv_heads) * op.width;
    for (std::int64_t head = 0; head < normed; ++head) {
      const std::int64_t at = start + head * op.width;
      const auto found = statistics<NormKind::kRmsNorm>(op.x + at, op.width, op.epsilon);
      op.inverse[token * normed + head] = found.inverse;
      const Gain<T>& gain = head < op.heads ? op.query_gain : op.key_gain;
      apply<NormKind::kRmsNorm, T>(op.y + at, op.x + at, gain, nullptr, op.width, found);
    }
    if (op.y == op.x) continue;
    const std::int64_t at = start + normed * op.width;
    each_vector<Accumulator<T>>(op.kv_heads * op.width, [&](auto some, std::int64_t i, int) {
      store(some, op.y + at + i, load(some, op.x + at + i));
    });
  }
}

template <class T>
TRIREME_KERNEL void head_norm_backward_tokens(const HeadNormBackwardTokens<T>& op) {
  const std::int64_t normed = op.heads + op.kv_heads;
  for (std::int64_t i = 0; i < op.width; ++i) op.dquery_gain[i] = op.dkey_gain[i] = 0;
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    for (std::int64_t head = 0; head < normed; ++head) {
      const std::int64_t at = (token * (normed + op.kv_heads) + head) * op.width;
      const bool query = head < op.heads;
      NormRowBackward<NormKind::kRmsNorm, T>{op.dqkv + at,
                                             query ? op.dquery_gain : op.dkey_gain,
                                             nullptr,
                                             op.dqkv + at,
                                             op.x + at,
                                             query ? op.query_gain : op.key_gain,
                                             nullptr,
                                             op.width,
                                             {0, op.inverse[token * normed + head]}}
          .run();
    }
  }
}

void head_norm(const HeadNorm& op) {
  const Heads& heads = op.heads;
  const std::int64_t tokens = op.x.rows(), normed = heads.heads + heads.kv_heads;
  with_float(op.x.dtype, [&]<class T>(T) {
    const auto offset = static_cast<Accumulator<T>>(op.gain_offset);
    trireme::cpu::parallel_for(
        tokens, row_grain(heads.qkv()), [&](std::int64_t first, std::int64_t last) {
          head_norm_tokens<T>({.y = at<T>(op.y, first * heads.qkv()),
                               .inverse = at<Accumulator<T>>(op.inv_rms, first * normed),
                               .x = at<T>(op.x, first * heads.qkv()),
                               .query_gain = {at<T>(op.query_gain), offset},
                               .key_gain = {at<T>(op.key_gain), offset},
                               .tokens = last - first,
                               .heads = heads.heads,
                               .kv_heads = heads.kv_heads,
                               .width = heads.width,
                               .epsilon = op.epsilon});
        });
  });
}

void head_norm_backward(Tensor partial, const HeadNormBackward& op) {
  const Heads& heads = op.heads;
  const std::int64_t tokens = op.x.rows(), normed = heads.heads + heads.kv_heads;
  with_float(op.x.dtype, [&]<class T>(T) {
    const auto offset = static_cast<Accumulator<T>>(op.gain_offset);
    trireme::cpu::parallel_for(row_chunks(tokens, {}), 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t chunk = from; chunk < to; ++chunk) {
        const std::int64_t first = chunk * kCpuRowChunk;
        Accumulator<T>* gains = at<Accumulator<T>>(partial, chunk * 2 * heads.width);
        head_norm_backward_tokens<T>({.dqkv = at<T>(op.dqkv, first * heads.qkv()),
                                      .dquery_gain = gains,
                                      .dkey_gain = gains + heads.width,
                                      .x = at<T>(op.x, first * heads.qkv()),
                                      .query_gain = {at<T>(op.query_gain), offset},
                                      .key_gain = {at<T>(op.key_gain), offset},
                                      .inverse = at<Accumulator<T>>(op.inv_rms, first * normed),
                                      .tokens = std::min(kCpuRowChunk, tokens - first),
                                      .heads = heads.heads,
                                      .kv_heads = heads.kv_heads,
                                      .width = heads.width});
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

HWY_EXPORT(head_norm);
HWY_EXPORT(head_norm_backward);

void head_norm(Stream&, const HeadNorm& op) {
  HWY_DYNAMIC_DISPATCH(head_norm)(op);
}
void head_norm_backward(Stream&, Tensor partial, const HeadNormBackward& op) {
  HWY_DYNAMIC_DISPATCH(head_norm_backward)(partial, op);
  column_sums(op.dquery_gain, partial, op.accumulate);
  column_sums(op.dkey_gain, partial, op.accumulate, op.heads.width);
}

}  // namespace trireme::ops::cpu
#endif
