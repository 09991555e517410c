#include "model/ops/cpu/simd/norm.h"

#include "model/ops/cpu/simd/norm_row.h"

namespace trireme::simd {
namespace {

template <Norm norm, class T>
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
    const Statistics<A> found = statistics<norm>(x, op.width, op.epsilon);
    op.inverse[row] = found.inverse;
    if constexpr (norm == Norm::kLayer) op.mean[row] = found.mean;
    apply<norm>(op.y + at, x, op.gain, op.bias, op.width, found);
  }
}

template <Norm norm, class T>
TRIREME_INLINE void again_rows(const NormRows<T>& op) {
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    apply<norm>(op.y + at, op.x + at, op.gain, op.bias, op.width,
                {norm == Norm::kLayer ? op.mean[row] : Sum<T>(0), op.inverse[row]});
  }
}

template <Norm norm, class T>
TRIREME_INLINE void backward_rows(const NormBackwardRows<T>& op) {
  using A = Sum<T>;
  for (std::int64_t i = 0; i < op.width; ++i) {
    op.dgain[i] = 0;
    if constexpr (norm == Norm::kLayer) op.dbias[i] = 0;
  }
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    NormRowBackward<norm, T>{op.dx + at,
                             op.dgain,
                             op.dbias,
                             op.dy + at,
                             op.x + at,
                             op.gain,
                             op.dresidual ? op.dresidual + at : nullptr,
                             op.width,
                             {norm == Norm::kLayer ? op.mean[row] : A(0), op.inverse[row]}}
        .run();
  }
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void rms_norm(const NormRows<T>& op) {
  forward_rows<Norm::kRms>(op);
}
template <Isa isa, class T>
TRIREME_KERNEL void layer_norm(const NormRows<T>& op) {
  forward_rows<Norm::kLayer>(op);
}
template <Isa isa, class T>
TRIREME_KERNEL void rms_norm_recompute(const NormRows<T>& op) {
  again_rows<Norm::kRms>(op);
}
template <Isa isa, class T>
TRIREME_KERNEL void layer_norm_recompute(const NormRows<T>& op) {
  again_rows<Norm::kLayer>(op);
}
template <Isa isa, class T>
TRIREME_KERNEL void rms_norm_backward(const NormBackwardRows<T>& op) {
  backward_rows<Norm::kRms>(op);
}
template <Isa isa, class T>
TRIREME_KERNEL void layer_norm_backward(const NormBackwardRows<T>& op) {
  backward_rows<Norm::kLayer>(op);
}

#define TRIREME_INSTANCE(T)                                             \
  template void rms_norm<kIsa, T>(const NormRows<T>&);                  \
  template void layer_norm<kIsa, T>(const NormRows<T>&);                \
  template void rms_norm_recompute<kIsa, T>(const NormRows<T>&);        \
  template void layer_norm_recompute<kIsa, T>(const NormRows<T>&);      \
  template void rms_norm_backward<kIsa, T>(const NormBackwardRows<T>&); \
  template void layer_norm_backward<kIsa, T>(const NormBackwardRows<T>&);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
