#include "model/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#define HWY_TARGET_INCLUDE "model/ops/cpu/cross_entropy.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/exp.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// Rows of columns [first, first + width) of a vocabulary.
template <class T>
struct LogitRows {
  T* logits = nullptr;
  const Accumulator<T>* top = nullptr;
  const std::int32_t* targets = nullptr;
  std::int64_t rows = 0, width = 0, first = 0;
};

// The maximum; NaN if either is NaN.
template <class V>
HWY_INLINE V larger(V a, V b) {
  return IfThenElse(IsNaN(b), b, above(b, a));
}

// The target's column on this rank, or -1.
template <class T>
HWY_INLINE std::int64_t column(const LogitRows<T>& op, std::int64_t row) {
  const std::int64_t at = op.targets[row] - op.first;
  return op.targets[row] >= 0 && at >= 0 && at < op.width ? at : -1;
}

template <class T>
TRIREME_KERNEL void max_of_rows(Accumulator<T>* top, const LogitRows<T>& op) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const T* x = op.logits + row * op.width;
    const A start = static_cast<A>(*x);
    Sums<A> tops(spread(start));
    each_vector<A>(op.width, [&](auto some, std::int64_t i, int k) {
      tops[k] = larger(tops[k], keep<A>(some, load(some, x + i), start));
    });
    const Vec<A> four = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    HWY_ALIGN A lanes[kLanes<A>];
    Store(four, Lanes<A>(), lanes);
    A most = lanes[0];
    for (const A lane : lanes) most = lane > most || lane != lane ? lane : most;
    top[row] = most;
  }
}

template <class T>
TRIREME_KERNEL void exp_sum_of_rows(Accumulator<T>* sums, Accumulator<T>* target,
                                    const LogitRows<T>& op) {
  using A = Accumulator<T>;
  constexpr std::int64_t kBlock = 4096;  // summed in A; blocks are added in float64
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const T* x = op.logits + row * op.width;
    const A top = op.top[row];
    const Vec<A> tops = spread(top);
    double sum = 0;
    for (std::int64_t first = 0; first < op.width; first += kBlock) {
      const std::int64_t n = op.width - first < kBlock ? op.width - first : kBlock;
      Sums<A> parts;
      each_vector<A>(n, [&](auto some, std::int64_t i, int k) {
        parts[k] += keep<A>(some, exp<A>(load(some, x + first + i) - tops));
      });
      sum += static_cast<double>(total(parts));
    }
    sums[row] = static_cast<A>(sum);
    const std::int64_t at = column(op, row);
    target[row] = at < 0 ? A(0) : static_cast<A>(x[at]) - top;
  }
}

template <class T>
TRIREME_KERNEL void transform_range(T* x, std::int64_t count, const LogitForm& form) {
  using A = Accumulator<T>;
  const Vec<A> scale = spread(static_cast<A>(form.scale));
  if (form.soft_cap == 0) {
    each_vector<A>(count, [&](auto some, std::int64_t i, int) {
      store(some, x + i, load(some, x + i) * scale);
    });
    return;
  }
  const Vec<A> cap = spread(static_cast<A>(form.soft_cap));
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    store(some, x + i, cap * tanh<A>(load(some, x + i) * scale / cap));
  });
}

// dl/dx over the form's scale: the slope of the cap. A masked column, -inf, has none.
template <class A>
HWY_INLINE Vec<A> slope(Vec<A> l, Vec<A> cap) {
  const Vec<A> one = spread(A(1)), t = below(one, Abs(l) / cap);
  return one - t * t;
}

template <class T>
TRIREME_KERNEL void backward_of_rows(const LogitRows<T>& op, const Accumulator<T>* total,
                                     double given_scale, const LogitForm& form) {
  using A = Accumulator<T>;
  const double scale = given_scale * form.scale;
  const bool capped = form.soft_cap > 0;
  const Vec<A> cap = spread(capped ? static_cast<A>(form.soft_cap) : A(1));
  for (std::int64_t row = 0; row < op.rows; ++row) {
    T* x = op.logits + row * op.width;
    const A top = op.top[row];
    const bool counts = op.targets[row] >= 0;
    const double sum = static_cast<double>(total[row]);
    double weight = 1;  // of the probabilities: the z-loss adds to it
    if (form.z_loss != 0) {
      weight += 2 * form.z_loss * (static_cast<double>(top) + __builtin_log(sum));
    }
    const A factor = counts ? static_cast<A>(scale * weight / sum) : A(0);
    const Vec<A> tops = spread(top), factors = spread(factor);
    const std::int64_t at = column(op, row);
    const double right =
        at < 0 ? 0 : static_cast<double>(static_cast<A>(x[at])) - static_cast<double>(top);
    if (!counts) {
      // Not a product with zero, which would preserve NaN.
      each_vector<A>(op.width,
                     [&](auto some, std::int64_t i, int) { store(some, x + i, zero<A>()); });
      continue;
    }
    const double of_target = at < 0 || !capped ? 0 : static_cast<double>(static_cast<A>(x[at]));
    if (capped) {
      each_vector<A>(op.width, [&](auto some, std::int64_t i, int) {
        const Vec<A> l = load(some, x + i);
        store(some, x + i, factors * exp<A>(l - tops) * slope<A>(l, cap));
      });
    } else {
      each_vector<A>(op.width, [&](auto some, std::int64_t i, int) {
        store(some, x + i, factors * exp<A>(load(some, x + i) - tops));
      });
    }
    if (at < 0) continue;
    // Subtracted before rounding: a confident correct prediction leaves a small difference.
    const double p = __builtin_exp(right) / sum;
    const double t = capped ? of_target / form.soft_cap : 0;
    x[at] = T(static_cast<A>(scale * (p * weight - 1) * (1 - t * t)));
  }
}

// Calls body(rows, first row) for each thread's rows.
template <class T, class Body>
void over_rows(Tensor logits, Tensor top, Tensor targets, std::int64_t first, const Body& body) {
  const std::int64_t width = logits.width();
  trireme::cpu::parallel_for(logits.rows(), row_grain(width),
                             [&](std::int64_t from, std::int64_t to) {
                               body(LogitRows<T>{.logits = at<T>(logits, from * width),
                                                 .top = at<Accumulator<T>>(top, from),
                                                 .targets = at<std::int32_t>(targets, from),
                                                 .rows = to - from,
                                                 .width = width,
                                                 .first = first},
                                    from);
                             });
}

void row_max(Tensor top, Tensor logits) {
  with_float(logits.dtype, [&]<class T>(T) {
    over_rows<T>(logits, {}, {}, 0, [&](const LogitRows<T>& rows, std::int64_t from) {
      max_of_rows(at<Accumulator<T>>(top, from), rows);
    });
  });
}

void row_exp_sum(Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first) {
  with_float(logits.dtype, [&]<class T>(T) {
    over_rows<T>(logits, top, targets, first, [&](const LogitRows<T>& rows, std::int64_t from) {
      exp_sum_of_rows(at<Accumulator<T>>(total, from), at<Accumulator<T>>(target, from), rows);
    });
  });
}

void transform_logits(Tensor logits, const LogitForm& form) {
  constexpr std::int64_t kGrain = 4096;
  with_float(logits.dtype, [&]<class T>(T) {
    trireme::cpu::parallel_for(logits.count(), kGrain, [&](std::int64_t from, std::int64_t to) {
      transform_range(at<T>(logits, from), to - from, form);
    });
  });
}

void cross_entropy_backward(Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale, const LogitForm& form) {
  const double factor = scale ? *scale.as<double>() : 1;
  with_float(logits.dtype, [&]<class T>(T) {
    over_rows<T>(logits, top, targets, first, [&](const LogitRows<T>& rows, std::int64_t from) {
      backward_of_rows(rows, at<Accumulator<T>>(total, from), factor, form);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(row_max);
HWY_EXPORT(row_exp_sum);
HWY_EXPORT(cross_entropy_backward);
HWY_EXPORT(transform_logits);

void row_max(Stream&, Tensor top, Tensor logits) {
  HWY_DYNAMIC_DISPATCH(row_max)(top, logits);
}
void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first) {
  HWY_DYNAMIC_DISPATCH(row_exp_sum)(total, target, logits, top, targets, first);
}
void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale, const LogitForm& form) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_backward)(logits, top, total, targets, first, scale, form);
}
void transform_logits(Stream&, Tensor logits, const LogitForm& form) {
  HWY_DYNAMIC_DISPATCH(transform_logits)(logits, form);
}

void row_max_exp_sum(Stream& stream, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets) {
  row_max(stream, top, logits);
  row_exp_sum(stream, total, target, logits, top, targets, 0);
}

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

void cross_entropy(Stream&, Tensor loss, Tensor top, Tensor total, Tensor target, Tensor targets,
                   const LogitForm& form) {
  with_float(loss.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      for (std::int64_t row = 0; row < loss.count(); ++row) {
        const double log_sum = std::log(static_cast<double>(total.as<A>()[row]));
        double value = log_sum - static_cast<double>(target.as<A>()[row]);
        if (form.z_loss != 0) {
          const double whole = static_cast<double>(top.as<A>()[row]) + log_sum;
          value += form.z_loss * whole * whole;
        }
        loss.as<A>()[row] = targets.as<std::int32_t>()[row] < 0 ? A(0) : static_cast<A>(value);
      }
    }
  });
}

}  // namespace trireme::ops::cpu
#endif
