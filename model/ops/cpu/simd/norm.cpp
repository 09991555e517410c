#include "model/ops/cpu/simd/norm.h"

#include "model/ops/cpu/simd/norm_row.h"

namespace trireme::simd {
namespace {

template <NormKind kind, class T>
TRIREME_INLINE void forward_rows(const NormRows<T>& op) {
  using A = Sum<T>;
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    const T* x = op.x + at;
    if (op.sum) {
      T* sum = op.sum + at;
      const T* residual = op.residual + at;
      each_vector<A>(op.width, [&](auto some, std::int64_t i, int) {
        store(some, sum + i, load(some, x + i) + load(some, residual + i));
      });
      x = sum;
    }
    const Statistics<A> found = statistics<kind>(x, op.width, op.epsilon);
    op.inverse[row] = found.inverse;
    if constexpr (kind == NormKind::kLayerNorm) op.mean[row] = found.mean;
    apply<kind>(op.y + at, x, op.gain, op.bias, op.width, found);
  }
}

template <NormKind kind, class T>
TRIREME_INLINE void recompute_rows(const NormRows<T>& op) {
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    apply<kind>(op.y + at, op.x + at, op.gain, op.bias, op.width,
                {kind == NormKind::kLayerNorm ? op.mean[row] : Sum<T>(0), op.inverse[row]});
  }
}

template <NormKind kind, class T>
TRIREME_INLINE void backward_rows(const NormBackwardRows<T>& op) {
  using A = Sum<T>;
  for (std::int64_t i = 0; i < op.width; ++i) {
    op.dgain[i] = 0;
    if constexpr (kind == NormKind::kLayerNorm) op.dbias[i] = 0;
  }
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    NormRowBackward<kind, T>{op.dx + at,
                             op.dgain,
                             op.dbias,
                             op.dy + at,
                             op.x + at,
                             op.gain,
                             op.dresidual ? op.dresidual + at : nullptr,
                             op.width,
                             {kind == NormKind::kLayerNorm ? op.mean[row] : A(0), op.inverse[row]}}
        .run();
  }
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void norm(const NormRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    forward_rows<NormKind::kRmsNorm>(op);
  } else {
    forward_rows<NormKind::kLayerNorm>(op);
  }
}
template <Isa isa, class T>
TRIREME_KERNEL void norm_recompute(const NormRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    recompute_rows<NormKind::kRmsNorm>(op);
  } else {
    recompute_rows<NormKind::kLayerNorm>(op);
  }
}
template <Isa isa, class T>
TRIREME_KERNEL void norm_backward(const NormBackwardRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    backward_rows<NormKind::kRmsNorm>(op);
  } else {
    backward_rows<NormKind::kLayerNorm>(op);
  }
}

#define TRIREME_INSTANCE(T)                                  \
  template void norm<kIsa, T>(const NormRows<T>&);           \
  template void norm_recompute<kIsa, T>(const NormRows<T>&); \
  template void norm_backward<kIsa, T>(const NormBackwardRows<T>&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
