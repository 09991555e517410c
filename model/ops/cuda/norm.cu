#include "model/ops/norm.h"

#include <algorithm>

#include "model/ops/cuda/column_sums.h"
#include "model/ops/cuda/norm_rows.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// As many lanes as hold a row, of at most kRowThreads.
template <NormKind kind, int n, class T>
void over_rows(Stream& stream, void (*kernel)(NormRows<T>), const NormRows<T>& op) {
  const std::int64_t lanes =
      std::clamp<std::int64_t>(32 * parts(op.width, 32 * n * kHeldPacks<kind>), 32, kRowThreads);
  const std::int64_t teams = lanes == 32 ? 4 : 1;
  launch(kernel, extent(parts(op.rows, teams)), dim3(extent(lanes), extent(teams)), 0, stream, op);
}

template <class T>
NormRows<T> rows_of(const Norm& op) {
  return {.y = at<T>(op.y),
          .mean = at<Sum<T>>(op.mean),
          .inverse = at<Sum<T>>(op.inverse),
          .sum = at<T>(op.sum),
          .magnitudes = at<int>(op.magnitudes),
          .x = at<T>(op.x),
          .residual = at<T>(op.residual),
          .gain = at<T>(op.gain),
          .bias = at<T>(op.bias),
          .rows = op.x.rows(),
          .width = op.x.width(),
          .epsilon = static_cast<Sum<T>>(op.epsilon),
          .gain_offset = static_cast<Sum<T>>(op.gain_offset)};
}

// Calls body.operator()<kind>().
template <class Body>
void with_kind(NormKind kind, const Body& body) {
  if (kind == NormKind::kRmsNorm) {
    body.template operator()<NormKind::kRmsNorm>();
  } else {
    body.template operator()<NormKind::kLayerNorm>();
  }
}

template <NormKind kind, int n, class T>
void launch_backward(Stream& stream, const NormBackwardRows<T>& op) {
  constexpr int kMost = kBackwardThreads<T>;
  constexpr std::size_t kSums = kind == NormKind::kLayerNorm ? 2 : 1;
  const std::int64_t lanes = std::min<std::int64_t>(32 * parts(op.width, 32 * n), kMost);
  const std::int64_t teams = std::max<std::int64_t>(512 / lanes, 1);
  const bool holds = op.width <= lanes * n;
  const std::size_t shared = holds ? kSums * n * sizeof(Sum<T>) * lanes * teams : 0;
  launch(holds ? norm_backward_kernel<kind, true, n, T> : norm_backward_kernel<kind, false, n, T>,
         extent(row_chunks(op.rows, stream.device())), dim3(extent(lanes), extent(teams)), shared,
         stream, op);
}

}  // namespace

void norm(Stream& stream, const Norm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows = rows_of<T>(op);
    with_magnitudes<T>(stream, op.magnitudes, [&]<bool collects>(std::bool_constant<collects>) {
      const auto run = [&]<int n>(Count<n>) {
        with_kind(op.kind, [&]<NormKind kind>() {
          over_rows<kind, n>(stream, norm_kernel<kind, n, collects, T>, rows);
        });
      };
      with_packs<T>(rows.width, run, op.y, op.sum, op.x, op.residual, op.gain, op.bias);
    });
  });
}

void norm_recompute(Stream& stream, const Norm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows = rows_of<T>(op);
    const auto run = [&]<int n>(Count<n>) {
      with_kind(op.kind, [&]<NormKind kind>() {
        over_rows<kind, n>(stream, norm_recompute_kernel<kind, n, T>, rows);
      });
    };
    with_packs<T>(rows.width, run, op.y, op.x, op.gain, op.bias);
  });
}

void norm_backward(Stream& stream, Tensor partial_gain, Tensor partial_bias,
                   const NormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormBackwardRows<T> rows{.dx = at<T>(op.dx),
                                   .dgain = at<Sum<T>>(partial_gain),
                                   .dbias = at<Sum<T>>(partial_bias),
                                   .dy = at<T>(op.dy),
                                   .x = at<T>(op.x),
                                   .gain = at<T>(op.gain),
                                   .dresidual = at<T>(op.dresidual),
                                   .mean = at<Sum<T>>(op.mean),
                                   .inverse = at<Sum<T>>(op.inverse),
                                   .rows = op.x.rows(),
                                   .width = op.x.width(),
                                   .share = Sum<T>(1) / static_cast<Sum<T>>(op.x.width()),
                                   .gain_offset = static_cast<Sum<T>>(op.gain_offset)};
    const auto run = [&]<int n>(Count<n>) {
      with_kind(op.kind, [&]<NormKind kind>() { launch_backward<kind, n>(stream, rows); });
    };
    with_packs<T>(rows.width, run, op.dx, op.dy, op.x, op.gain, op.dresidual);
  });
  column_sums(stream, op.dgain, partial_gain, op.accumulate);
  if (partial_bias) column_sums(stream, op.dbias, partial_bias, op.accumulate);
}

}  // namespace trireme::ops::cuda
