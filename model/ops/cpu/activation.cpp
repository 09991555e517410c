#include "model/ops/activation.h"

#include "model/ops/cpu/float8.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/activation.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/activation.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kActivationGrain = 4096;  // one exponential per element

template <Activation kind, class T>
TRIREME_KERNEL void activate_range(T* y, const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> v = load(some, x + i);
    store(some, y + i, v * multiplier<kind, A>(v).value);
  });
}

template <Activation kind, class T>
TRIREME_KERNEL void activate_backward_range(T* dx, const T* dy, const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Multiplier<A> m = multiplier<kind, A>(load(some, x + i));
    store(some, dx + i, load(some, dy + i) * MulAdd(m.steep, m.slope, m.value));
  });
}

// Each row of x has gate and up, `width` elements each.
template <Activation kind, class T>
TRIREME_KERNEL void gate_rows(T* y, const T* x, std::int64_t rows, std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row, y += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> v = load(some, x + i);
      store(some, y + i, v * multiplier<kind, A>(v).value * load(some, x + width + i));
    });
  }
}

template <Activation kind, class T>
TRIREME_KERNEL void gate_backward_rows(T* dx, const T* dy, const T* x, std::int64_t rows,
                                       std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row, dx += 2 * width, dy += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> v = load(some, x + i), up = load(some, x + width + i);
      const Vec<A> d = load(some, dy + i);
      const Multiplier<A> m = multiplier<kind, A>(v);
      store(some, dx + i, d * up * MulAdd(m.steep, m.slope, m.value));
      store(some, dx + width + i, d * v * m.value);
    });
  }
}

// A gate and its up, clamped.
template <class A>
struct ClampedUnit {
  Vec<A> gate, up_plus_one;
  HWY_INLINE ClampedUnit(Vec<A> g, Vec<A> up, Vec<A> limit)
      : gate(IfThenElse(g > limit, limit, g)),
        // Comparisons with NaN are false, so that it stays.
        up_plus_one(IfThenElse(Abs(up) > limit, CopySign(limit, up), up) + spread(A(1))) {}
  HWY_INLINE Sigmoid<A> sigmoid_of_gate() const {
    return sigmoid<A>(gate * spread(A(kClampedSlope)));
  }
};

template <class T>
TRIREME_KERNEL void clamped_gate_rows(T* y, const T* x, std::int64_t rows, std::int64_t width,
                                      Accumulator<T> limit) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row, y += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const ClampedUnit<A> unit(load(some, x + i), load(some, x + width + i), spread(limit));
      store(some, y + i, unit.gate * unit.sigmoid_of_gate().value * unit.up_plus_one);
    });
  }
}

template <class T>
TRIREME_KERNEL void clamped_gate_backward_rows(T* dx, const T* dy, const T* x, std::int64_t rows,
                                               std::int64_t width, Accumulator<T> limit) {
  using A = Accumulator<T>;
  const Vec<A> most = spread(limit), slope = spread(A(kClampedSlope));
  for (std::int64_t row = 0; row < rows; ++row, dx += 2 * width, dy += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> g = load(some, x + i), up = load(some, x + width + i), d = load(some, dy + i);
      const ClampedUnit<A> unit(g, up, most);
      const Sigmoid<A> s = unit.sigmoid_of_gate();
      const Vec<A> dgate = d * unit.up_plus_one * MulAdd(unit.gate * slope, s.slope, s.value);
      store(some, dx + i, IfThenElse(g > most, zero<A>(), dgate));
      store(some, dx + width + i, IfThenElse(Abs(up) > most, zero<A>(), d * unit.gate * s.value));
    });
  }
}

// Calls body.operator()<kind>(T) for the elements of `tensor`.
template <class Body>
void with_kind(Activation kind, const Tensor& tensor, const Body& body) {
  with_float(tensor.dtype, [&]<class T>(T zero) {
    switch (kind) {
      case Activation::kGelu:
        return body.template operator()<Activation::kGelu>(zero);
      case Activation::kGeluTanh:
        return body.template operator()<Activation::kGeluTanh>(zero);
      case Activation::kRelu2:
        return body.template operator()<Activation::kRelu2>(zero);
      case Activation::kSilu:
        return body.template operator()<Activation::kSilu>(zero);
    }
  });
}

void activate(Tensor y, Tensor x, Activation kind) {
  with_kind(kind, x, [&]<Activation which, class T>(T) {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      activate_range<which>(at<T>(y, first), at<T>(x, first), last - first);
    });
  });
}

void activate_backward(Tensor dx, Tensor dy, Tensor x, Activation kind) {
  with_kind(kind, x, [&]<Activation which, class T>(T) {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      activate_backward_range<which>(at<T>(dx, first), at<T>(dy, first), at<T>(x, first),
                                     last - first);
    });
  });
}

void clamped_gate(Tensor y, Tensor x, double limit) {
  const std::int64_t width = y.width();
  with_float(y.dtype, [&]<class T>(T) {
    parallel_for(y.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   clamped_gate_rows(at<T>(y, first * width), at<T>(x, first * 2 * width),
                                     last - first, width, static_cast<Accumulator<T>>(limit));
                 });
  });
}

void clamped_gate_backward(Tensor dx, Tensor dy, Tensor x, double limit) {
  const std::int64_t width = dy.width();
  with_float(dy.dtype, [&]<class T>(T) {
    parallel_for(
        dy.rows(), kActivationGrain / width + 1, [&](std::int64_t first, std::int64_t last) {
          clamped_gate_backward_rows(at<T>(dx, first * 2 * width), at<T>(dy, first * width),
                                     at<T>(x, first * 2 * width), last - first, width,
                                     static_cast<Accumulator<T>>(limit));
        });
  });
}

void gate(Tensor y, Tensor x, Activation kind, double limit) {
  if (limit > 0) return clamped_gate(y, x, limit);
  const std::int64_t width = y.width();
  with_kind(kind, x, [&]<Activation which, class T>(T) {
    parallel_for(y.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   gate_rows<which>(at<T>(y, first * width), at<T>(x, first * 2 * width),
                                    last - first, width);
                 });
  });
}

void gate_backward(Tensor dx, Tensor dy, Tensor x, Activation kind, double limit) {
  if (limit > 0) return clamped_gate_backward(dx, dy, x, limit);
  const std::int64_t width = dy.width();
  with_kind(kind, x, [&]<Activation which, class T>(T) {
    parallel_for(dy.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   gate_backward_rows<which>(at<T>(dx, first * 2 * width), at<T>(dy, first * width),
                                             at<T>(x, first * 2 * width), last - first, width);
                 });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(activate);
HWY_EXPORT(activate_backward);
HWY_EXPORT(gate);
HWY_EXPORT(gate_backward);

void activate(Stream&, Tensor y, Tensor x, Activation kind, Tensor magnitudes) {
  HWY_DYNAMIC_DISPATCH(activate)(y, x, kind);
  if (magnitudes) collect_magnitudes(magnitudes, y);
}
void activate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation kind,
                       Tensor magnitudes) {
  HWY_DYNAMIC_DISPATCH(activate_backward)(dx, dy, x, kind);
  if (magnitudes) collect_magnitudes(magnitudes, dx);
}
void gate(Stream&, Tensor y, Tensor x, Activation kind, double limit, Tensor magnitudes) {
  HWY_DYNAMIC_DISPATCH(gate)(y, x, kind, limit);
  if (magnitudes) collect_magnitudes(magnitudes, y);
}
void gate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation kind, double limit,
                   Tensor magnitudes) {
  HWY_DYNAMIC_DISPATCH(gate_backward)(dx, dy, x, kind, limit);
  if (magnitudes) collect_magnitudes(magnitudes, dx);
}

}  // namespace trireme::ops::cpu
#endif
