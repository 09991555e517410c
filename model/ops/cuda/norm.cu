#include "model/ops/cuda/norm.h"

#include <algorithm>
#include <bit>

#include "model/ops/cuda/column_sums.h"
#include "model/ops/cuda/norm_rows.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// About four packs per thread, from a warp to half of the largest block.
template <int n, class T>
void over_rows(Stream& stream, void (*kernel)(NormRows<T>), const NormRows<T>& op) {
  const auto quarter = static_cast<std::uint64_t>(parts(op.width, 4 * n));
  const auto lanes = std::clamp<std::int64_t>(std::bit_ceil(quarter), 32, 512);
  const std::int64_t teams = lanes == 32 ? 4 : 1;
  launch(kernel, extent(parts(op.rows, teams)), dim3(extent(lanes), extent(teams)), 0, stream, op);
}

template <Norm norm, class T, class Op>
void backward(Stream& stream, const Op& op, const NormBackwardRows<T>& rows) {
  const auto run = [&]<int n>(Count<n>) {
    // Packs of eight float16 need more registers than two blocks per multiprocessor have.
    constexpr int kPack = std::is_same_v<T, F16> ? std::min(n, 4) : n;
    launch(norm_backward_kernel<norm, kPack, T>, extent(row_chunks(rows.rows)), kBackwardThreads, 0,
           stream, rows);
  };
  with_packs<T>(rows.width, run, op.dx, op.dy, op.x, op.gain, op.dresidual);
}

}  // namespace

void rms_norm(Stream& stream, const RmsNorm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.y = at<T>(op.y),
                           .mean = nullptr,
                           .inverse = at<Sum<T>>(op.inv_rms),
                           .sum = at<T>(op.sum),
                           .x = at<T>(op.x),
                           .residual = at<T>(op.residual),
                           .gain = at<T>(op.gain),
                           .bias = nullptr,
                           .rows = op.x.rows(),
                           .width = op.x.width(),
                           .epsilon = static_cast<Sum<T>>(op.epsilon)};
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, norm_kernel<Norm::kRms, n, T>, rows);
    };
    with_packs<T>(rows.width, run, op.y, op.sum, op.x, op.residual, op.gain);
  });
}

void layer_norm(Stream& stream, const LayerNorm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.y = at<T>(op.y),
                           .mean = at<Sum<T>>(op.mean),
                           .inverse = at<Sum<T>>(op.inv_std),
                           .sum = at<T>(op.sum),
                           .x = at<T>(op.x),
                           .residual = at<T>(op.residual),
                           .gain = at<T>(op.gain),
                           .bias = at<T>(op.bias),
                           .rows = op.x.rows(),
                           .width = op.x.width(),
                           .epsilon = static_cast<Sum<T>>(op.epsilon)};
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, norm_kernel<Norm::kLayer, n, T>, rows);
    };
    with_packs<T>(rows.width, run, op.y, op.sum, op.x, op.residual, op.gain, op.bias);
  });
}

void rms_norm_recompute(Stream& stream, Tensor y, Tensor x, Tensor gain, Tensor inv_rms) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.y = at<T>(y),
                           .mean = nullptr,
                           .inverse = at<Sum<T>>(inv_rms),
                           .sum = nullptr,
                           .x = at<T>(x),
                           .residual = nullptr,
                           .gain = at<T>(gain),
                           .bias = nullptr,
                           .rows = x.rows(),
                           .width = x.width(),
                           .epsilon = 0};
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, norm_again_kernel<Norm::kRms, n, T>, rows);
    };
    with_packs<T>(rows.width, run, y, x, gain);
  });
}

void layer_norm_recompute(Stream& stream, Tensor y, Tensor x, Tensor gain, Tensor bias, Tensor mean,
                          Tensor inv_std) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.y = at<T>(y),
                           .mean = at<Sum<T>>(mean),
                           .inverse = at<Sum<T>>(inv_std),
                           .sum = nullptr,
                           .x = at<T>(x),
                           .residual = nullptr,
                           .gain = at<T>(gain),
                           .bias = at<T>(bias),
                           .rows = x.rows(),
                           .width = x.width(),
                           .epsilon = 0};
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, norm_again_kernel<Norm::kLayer, n, T>, rows);
    };
    with_packs<T>(rows.width, run, y, x, gain, bias);
  });
}

void rms_norm_backward(Stream& stream, Tensor partial_gain, const RmsNormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    backward<Norm::kRms, T>(stream, op,
                            {.dx = at<T>(op.dx),
                             .dgain = at<Sum<T>>(partial_gain),
                             .dbias = nullptr,
                             .dy = at<T>(op.dy),
                             .x = at<T>(op.x),
                             .gain = at<T>(op.gain),
                             .dresidual = at<T>(op.dresidual),
                             .mean = nullptr,
                             .inverse = at<Sum<T>>(op.inv_rms),
                             .rows = op.x.rows(),
                             .width = op.x.width()});
  });
  column_sums(stream, op.dgain, partial_gain, op.accumulate);
}

void layer_norm_backward(Stream& stream, Tensor partial_gain, Tensor partial_bias,
                         const LayerNormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    backward<Norm::kLayer, T>(stream, op,
                              {.dx = at<T>(op.dx),
                               .dgain = at<Sum<T>>(partial_gain),
                               .dbias = at<Sum<T>>(partial_bias),
                               .dy = at<T>(op.dy),
                               .x = at<T>(op.x),
                               .gain = at<T>(op.gain),
                               .dresidual = at<T>(op.dresidual),
                               .mean = at<Sum<T>>(op.mean),
                               .inverse = at<Sum<T>>(op.inv_std),
                               .rows = op.x.rows(),
                               .width = op.x.width()});
  });
  column_sums(stream, op.dgain, partial_gain, op.accumulate);
  column_sums(stream, op.dbias, partial_bias, op.accumulate);
}

}  // namespace trireme::ops::cuda
