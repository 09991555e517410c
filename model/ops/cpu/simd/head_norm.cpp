#include "model/ops/cpu/simd/head_norm.h"

#include "model/ops/cpu/simd/norm_row.h"

namespace trireme::simd {

template <Isa isa, class T>
TRIREME_KERNEL void head_norm(const HeadNormTokens<T>& op) {
  const std::int64_t normed = op.heads + op.kv_heads;
  for (std::int64_t token = 0; token < op.tokens; ++token) {
    const std::int64_t start = token * (normed + op.kv_heads) * op.width;
    for (std::int64_t head = 0; head < normed; ++head) {
      const std::int64_t at = start + head * op.width;
      const auto found = statistics<NormKind::kRmsNorm>(op.x + at, op.width, op.epsilon);
      op.inverse[token * normed + head] = found.inverse;
      const T* gain = head < op.heads ? op.query_gain : op.key_gain;
      apply<NormKind::kRmsNorm, T>(op.y + at, op.x + at, gain, nullptr, op.width, found);
    }
    if (op.y == op.x) continue;
    const std::int64_t at = start + normed * op.width;
    each_vector<Sum<T>>(op.kv_heads * op.width, [&](auto some, std::int64_t i, int) {
      store(some, op.y + at + i, load(some, op.x + at + i));
    });
  }
}

template <Isa isa, class T>
TRIREME_KERNEL void head_norm_backward(const HeadNormBackwardTokens<T>& op) {
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

#define TRIREME_INSTANCE(T)                                   \
  template void head_norm<kIsa, T>(const HeadNormTokens<T>&); \
  template void head_norm_backward<kIsa, T>(const HeadNormBackwardTokens<T>&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
