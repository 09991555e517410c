#include "model/ops/norm.h"

#include "model/ops/cpu/float8.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/norm.cpp"
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

// Rows of ops::Norm. Null: absent.
template <class T>
struct NormRows {
  NormKind kind;
  T* y = nullptr;
  Accumulator<T>*mean = nullptr, *inverse = nullptr;
  T* sum = nullptr;
  const T *x = nullptr, *residual = nullptr;
  Gain<T> gain;
  const T* bias = nullptr;
  std::int64_t rows = 0, width = 0;
  double epsilon = 0;
};

template <class T>
struct NormBackwardRows {
  NormKind kind;
  T* dx = nullptr;
  // [width], replaced by the sums over these rows
  Accumulator<T>*dgain = nullptr, *dbias = nullptr;
  const T *dy = nullptr, *x = nullptr;
  Gain<T> gain;
  const T* dresidual = nullptr;
  const Accumulator<T>*mean = nullptr, *inverse = nullptr;
  std::int64_t rows = 0, width = 0;
};

template <NormKind kind, class T>
HWY_INLINE void forward_rows(const NormRows<T>& op) {
  using A = Accumulator<T>;
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
HWY_INLINE void recompute_rows(const NormRows<T>& op) {
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const std::int64_t at = row * op.width;
    apply<kind>(op.y + at, op.x + at, op.gain, op.bias, op.width,
                {kind == NormKind::kLayerNorm ? op.mean[row] : Accumulator<T>(0), op.inverse[row]});
  }
}

template <NormKind kind, class T>
HWY_INLINE void backward_rows(const NormBackwardRows<T>& op) {
  using A = Accumulator<T>;
  for (std::int64_t i = 0; i < op.width; ++i) {
    op.dgain[i] = 0;
    if (op.dbias) op.dbias[i] = 0;
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

template <class T>
TRIREME_KERNEL void norm_rows(const NormRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    forward_rows<NormKind::kRmsNorm>(op);
  } else {
    forward_rows<NormKind::kLayerNorm>(op);
  }
}
template <class T>
TRIREME_KERNEL void norm_recompute_rows(const NormRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    recompute_rows<NormKind::kRmsNorm>(op);
  } else {
    recompute_rows<NormKind::kLayerNorm>(op);
  }
}
template <class T>
TRIREME_KERNEL void norm_backward_rows(const NormBackwardRows<T>& op) {
  if (op.kind == NormKind::kRmsNorm) {
    backward_rows<NormKind::kRmsNorm>(op);
  } else {
    backward_rows<NormKind::kLayerNorm>(op);
  }
}

template <class T>
NormRows<T> rows_from(const NormRows<T>& all, std::int64_t first, std::int64_t last) {
  const auto moved = [](auto* p, std::int64_t by) { return p ? p + by : p; };
  NormRows<T> some = all;
  const std::int64_t by = first * all.width;
  some.y = moved(all.y, by);
  some.x = moved(all.x, by);
  some.sum = moved(all.sum, by);
  some.residual = moved(all.residual, by);
  some.mean = moved(all.mean, first);
  some.inverse = moved(all.inverse, first);
  some.rows = last - first;
  return some;
}

// Calls body for each thread's rows.
template <class T, class Body>
void over_rows(const NormRows<T>& all, const Body& body) {
  trireme::cpu::parallel_for(
      all.rows, row_grain(all.width),
      [&](std::int64_t first, std::int64_t last) { body(rows_from(all, first, last)); });
}

// Calls body for each chunk of rows, then adds the chunks.
template <class T, class Body>
void over_chunks(const NormBackwardRows<T>& all, const Body& body) {
  trireme::cpu::parallel_for(
      row_chunks(all.rows, {}), (row_grain(all.width) + kCpuRowChunk - 1) / kCpuRowChunk,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t chunk = first; chunk < last; ++chunk) {
          NormBackwardRows<T> some = all;
          const std::int64_t row = chunk * kCpuRowChunk, by = row * all.width;
          some.rows = std::min(kCpuRowChunk, all.rows - row);
          some.dx += by;
          some.dy += by;
          some.x += by;
          if (some.dresidual) some.dresidual += by;
          if (some.mean) some.mean += row;
          some.inverse += row;
          some.dgain += chunk * all.width;
          if (some.dbias) some.dbias += chunk * all.width;
          body(some);
        }
      });
}

template <class T, class Op>
Gain<T> gain_of(const Op& op) {
  return {at<T>(op.gain), static_cast<Accumulator<T>>(op.gain_offset)};
}

template <class T>
NormRows<T> rows_of(const Norm& op) {
  return {.kind = op.kind,
          .y = at<T>(op.y),
          .mean = at<Accumulator<T>>(op.mean),
          .inverse = at<Accumulator<T>>(op.inverse),
          .sum = at<T>(op.sum),
          .x = at<T>(op.x),
          .residual = at<T>(op.residual),
          .gain = gain_of<T>(op),
          .bias = at<T>(op.bias),
          .rows = op.x.rows(),
          .width = op.x.width(),
          .epsilon = op.epsilon};
}

void norm(const Norm& op) {
  with_float(op.x.dtype, [&]<class T>(T) {
    over_rows(rows_of<T>(op), [](const NormRows<T>& rows) { norm_rows(rows); });
  });
}

void norm_recompute(const Norm& op) {
  with_float(op.x.dtype, [&]<class T>(T) {
    over_rows(rows_of<T>(op), [](const NormRows<T>& rows) { norm_recompute_rows(rows); });
  });
}

void norm_backward(Tensor partial_gain, Tensor partial_bias, const NormBackward& op) {
  with_float(op.x.dtype, [&]<class T>(T) {
    const NormBackwardRows<T> all{.kind = op.kind,
                                  .dx = at<T>(op.dx),
                                  .dgain = at<Accumulator<T>>(partial_gain),
                                  .dbias = at<Accumulator<T>>(partial_bias),
                                  .dy = at<T>(op.dy),
                                  .x = at<T>(op.x),
                                  .gain = gain_of<T>(op),
                                  .dresidual = at<T>(op.dresidual),
                                  .mean = at<Accumulator<T>>(op.mean),
                                  .inverse = at<Accumulator<T>>(op.inverse),
                                  .rows = op.x.rows(),
                                  .width = op.x.width()};
    over_chunks(all, [](const NormBackwardRows<T>& rows) { norm_backward_rows(rows); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(norm);
HWY_EXPORT(norm_recompute);
HWY_EXPORT(norm_backward);

void norm(Stream&, const Norm& op) {
  HWY_DYNAMIC_DISPATCH(norm)(op);
  if (op.magnitudes) collect_magnitudes(op.magnitudes, op.y);
}
void norm_recompute(Stream&, const Norm& op) {
  HWY_DYNAMIC_DISPATCH(norm_recompute)(op);
}
void norm_backward(Stream&, Tensor partial_gain, Tensor partial_bias, const NormBackward& op) {
  HWY_DYNAMIC_DISPATCH(norm_backward)(partial_gain, partial_bias, op);
  column_sums(op.dgain, partial_gain, op.accumulate);
  if (partial_bias) column_sums(op.dbias, partial_bias, op.accumulate);
}

}  // namespace trireme::ops::cpu
#endif
