#include "model/ops/cpu/simd/cross_entropy.h"

#include "model/ops/cpu/simd/exp.h"

namespace trireme::simd {
namespace {

// The target's column on this rank, or -1.
template <class T>
TRIREME_INLINE std::int64_t column(const LogitRows<T>& op, std::int64_t row) {
  const std::int64_t at = op.targets[row] - op.first;
  return op.targets[row] >= 0 && at >= 0 && at < op.width ? at : -1;
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void row_max(Sum<T>* top, const LogitRows<T>& op) {
  using A = Sum<T>;
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const T* x = op.logits + row * op.width;
    const A start = one(x);
    Vec<A> tops[4] = {spread(start), spread(start), spread(start), spread(start)};
    each_vector<A>(op.width, [&](auto some, std::int64_t i, int k) {
      tops[k] = larger(tops[k], keep<A>(some, load(some, x + i), start));
    });
    const Vec<A> four = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    A most = four[0];
    for (int i = 1; i < kLanes<A>; ++i)
      most = four[i] > most || four[i] != four[i] ? four[i] : most;
    top[row] = most;
  }
}

template <Isa isa, class T>
TRIREME_KERNEL void row_exp_sum(Sum<T>* sums, Sum<T>* target, const LogitRows<T>& op) {
  using A = Sum<T>;
  constexpr std::int64_t kBlock = 4096;  // summed in A; blocks are added in float64
  for (std::int64_t row = 0; row < op.rows; ++row) {
    const T* x = op.logits + row * op.width;
    const A top = op.top[row];
    double sum = 0;
    for (std::int64_t first = 0; first < op.width; first += kBlock) {
      const std::int64_t n = op.width - first < kBlock ? op.width - first : kBlock;
      Vec<A> parts[4] = {};
      each_vector<A>(n, [&](auto some, std::int64_t i, int k) {
        parts[k] += keep<A>(some, exp(load(some, x + first + i) - top));
      });
      sum += static_cast<double>(total<A>(parts));
    }
    sums[row] = static_cast<A>(sum);
    const std::int64_t at = column(op, row);
    target[row] = at < 0 ? A(0) : one(x + at) - top;
  }
}

template <Isa isa, class T>
TRIREME_KERNEL void cross_entropy_backward(const LogitRows<T>& op, const Sum<T>* total,
                                           double scale) {
  using A = Sum<T>;
  for (std::int64_t row = 0; row < op.rows; ++row) {
    T* x = op.logits + row * op.width;
    const A top = op.top[row];
    const bool counts = op.targets[row] >= 0;
    const A factor = counts ? static_cast<A>(scale / static_cast<double>(total[row])) : A(0);
    const std::int64_t at = column(op, row);
    const double right = at < 0 ? 0 : static_cast<double>(one(x + at)) - static_cast<double>(top);
    if (!counts) {
      // Not a product with zero, which would preserve NaN.
      each_vector<A>(op.width,
                     [&](auto some, std::int64_t i, int) { store(some, x + i, Vec<A>{}); });
      continue;
    }
    each_vector<A>(op.width, [&](auto some, std::int64_t i, int) {
      store(some, x + i, factor * exp(load(some, x + i) - top));
    });
    if (at < 0) continue;
    // Subtracted before rounding: a confident correct prediction leaves a small difference.
    const double p = __builtin_exp(right) / static_cast<double>(total[row]);
    store(Part{1}, x + at, spread(static_cast<A>(scale * (p - 1))));
  }
}

#define TRIREME_INSTANCE(T)                                                  \
  template void row_max<kIsa, T>(Sum<T>*, const LogitRows<T>&);              \
  template void row_exp_sum<kIsa, T>(Sum<T>*, Sum<T>*, const LogitRows<T>&); \
  template void cross_entropy_backward<kIsa, T>(const LogitRows<T>&, const Sum<T>*, double);
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
