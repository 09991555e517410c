#include "model/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/cross_entropy.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;
using simd::LogitRows;
using simd::Sum;

// Calls body(rows, first row) for each thread's rows.
template <class T, class Body>
void over_rows(Tensor logits, Tensor top, Tensor targets, std::int64_t first, const Body& body) {
  const std::int64_t width = logits.width();
  trireme::cpu::parallel_for(logits.rows(), row_grain(width),
                             [&](std::int64_t from, std::int64_t to) {
                               body(LogitRows<T>{.logits = at<T>(logits, from * width),
                                                 .top = at<Sum<T>>(top, from),
                                                 .targets = at<std::int32_t>(targets, from),
                                                 .rows = to - from,
                                                 .width = width,
                                                 .first = first},
                                    from);
                             });
}

}  // namespace

void mask_padding(Stream&, Tensor logits, std::int64_t columns) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T nothing(-std::numeric_limits<float>::infinity());
    const std::int64_t width = logits.width();
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      T* const line = logits.as<T>() + row * width;
      std::fill(line + columns, line + width, nothing);
    }
  });
}

void row_max(Stream&, Tensor top, Tensor logits) {
  with_kernels(logits.dtype, [&]<Isa isa, class T>() {
    over_rows<T>(logits, {}, {}, 0, [&](const LogitRows<T>& rows, std::int64_t from) {
      simd::row_max<isa, T>(at<Sum<T>>(top, from), rows);
    });
  });
}

void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first) {
  with_kernels(logits.dtype, [&]<Isa isa, class T>() {
    over_rows<T>(logits, top, targets, first, [&](const LogitRows<T>& rows, std::int64_t from) {
      simd::row_exp_sum<isa, T>(at<Sum<T>>(total, from), at<Sum<T>>(target, from), rows);
    });
  });
}

void row_max_exp_sum(Stream& stream, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets) {
  row_max(stream, top, logits);
  row_exp_sum(stream, total, target, logits, top, targets, 0);
}

void cross_entropy(Stream&, Tensor loss, Tensor total, Tensor target, Tensor targets) {
  with_float(loss.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      for (std::int64_t row = 0; row < loss.count(); ++row) {
        const double log_sum = std::log(static_cast<double>(total.as<A>()[row]));
        const double value = log_sum - static_cast<double>(target.as<A>()[row]);
        loss.as<A>()[row] = targets.as<std::int32_t>()[row] < 0 ? A(0) : static_cast<A>(value);
      }
    }
  });
}

void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale) {
  const double factor = scale ? *scale.as<double>() : 1;
  with_kernels(logits.dtype, [&]<Isa isa, class T>() {
    over_rows<T>(logits, top, targets, first, [&](const LogitRows<T>& rows, std::int64_t from) {
      simd::cross_entropy_backward<isa, T>(rows, at<Sum<T>>(total, from), factor);
    });
  });
}

}  // namespace trireme::ops::cpu
