#include "model/ops/norm.h"

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/column_sums.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/norm.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;
using simd::NormBackwardRows;
using simd::NormRows;
using simd::Sum;

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

template <class T>
NormRows<T> rows_of(const Norm& op) {
  return {.kind = op.kind,
          .y = at<T>(op.y),
          .mean = at<Sum<T>>(op.mean),
          .inverse = at<Sum<T>>(op.inverse),
          .sum = at<T>(op.sum),
          .x = at<T>(op.x),
          .residual = at<T>(op.residual),
          .gain = at<T>(op.gain),
          .bias = at<T>(op.bias),
          .rows = op.x.rows(),
          .width = op.x.width(),
          .epsilon = op.epsilon};
}

}  // namespace

void norm(Stream&, const Norm& op) {
  with_kernels(op.x.dtype, [&]<Isa isa, class T>() {
    over_rows(rows_of<T>(op), [](const NormRows<T>& rows) { simd::norm<isa, T>(rows); });
  });
}

void norm_recompute(Stream&, const Norm& op) {
  with_kernels(op.x.dtype, [&]<Isa isa, class T>() {
    over_rows(rows_of<T>(op), [](const NormRows<T>& rows) { simd::norm_recompute<isa, T>(rows); });
  });
}

void norm_backward(Stream&, Tensor partial_gain, Tensor partial_bias, const NormBackward& op) {
  with_kernels(op.x.dtype, [&]<Isa isa, class T>() {
    const NormBackwardRows<T> all{.kind = op.kind,
                                  .dx = at<T>(op.dx),
                                  .dgain = at<Sum<T>>(partial_gain),
                                  .dbias = at<Sum<T>>(partial_bias),
                                  .dy = at<T>(op.dy),
                                  .x = at<T>(op.x),
                                  .gain = at<T>(op.gain),
                                  .dresidual = at<T>(op.dresidual),
                                  .mean = at<Sum<T>>(op.mean),
                                  .inverse = at<Sum<T>>(op.inverse),
                                  .rows = op.x.rows(),
                                  .width = op.x.width()};
    over_chunks(all, [](const NormBackwardRows<T>& rows) { simd::norm_backward<isa, T>(rows); });
  });
  column_sums(op.dgain, partial_gain, op.accumulate);
  if (partial_bias) column_sums(op.dbias, partial_bias, op.accumulate);
}

}  // namespace trireme::ops::cpu
