#include "model/ops/projection_norm.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "model/ops/cpu/projection_norm.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/column_sums.h"
#include "model/ops/cpu/simd/vec.h"
#include "model/ops/row_chunks.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// The queries or the keys of rows of qkv.
template <class T>
struct Projection {
  std::int64_t first = 0, width = 0;  // columns
  const T* gain = nullptr;
  double whole_width = 1;  // of the model
};

template <class T, class Op>
Projection<T> projection(const Op& op, int part) {
  const std::int64_t queries = op.heads.query(), keys = op.heads.kv_heads * op.heads.width;
  if (part == 0) {
    return {0, queries, at<T>(op.query_gain), static_cast<double>(op.query_width)};
  }
  return {queries, keys, at<T>(op.key_gain), static_cast<double>(op.key_width)};
}

template <class A>
HWY_INLINE double inverse_rms(const A* squares, double width, double epsilon) {
  return 1 / __builtin_sqrt(static_cast<double>(*squares) / width + epsilon);
}

template <class T>
TRIREME_KERNEL Accumulator<T> sum_of_squares(const T* x, std::int64_t width) {
  using A = Accumulator<T>;
  Sums<A> squares;
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    const Vec<A> v = load(some, x + i);
    squares[k] = MulAdd(v, v, squares[k]);
  });
  return total(squares);
}

template <class T>
TRIREME_KERNEL Accumulator<T> sum_of_products(const T* dy, const T* gain, const T* x,
                                              std::int64_t width) {
  using A = Accumulator<T>;
  Sums<A> products;
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    products[k] = MulAdd(load(some, dy + i) * load(some, gain + i), load(some, x + i), products[k]);
  });
  return total(products);
}

template <class T>
TRIREME_KERNEL void normalize(T* y, const T* x, const T* gain, std::int64_t width,
                              Accumulator<T> inverse) {
  using A = Accumulator<T>;
  each_vector<A>(width, [&](auto some, std::int64_t i, int) {
    store(some, y + i, load(some, x + i) * spread(inverse) * load(some, gain + i));
  });
}

// dx in place of dy, of a row whose mean of dy gain x inverse is `slope`.
template <class T>
TRIREME_KERNEL void normalize_backward(T* dy, Accumulator<T>* dgain, const T* x, const T* gain,
                                       std::int64_t width, Accumulator<T> inverse,
                                       Accumulator<T> slope) {
  using A = Accumulator<T>;
  const Vec<A> scale = spread(inverse), minus_slope = spread(-slope);
  each_vector<A>(width, [&](auto some, std::int64_t i, int) {
    const Vec<A> n = load(some, x + i) * scale, d = load(some, dy + i);
    store(some, dgain + i, MulAdd(d, n, load(some, dgain + i)));
    store(some, dy + i, scale * MulAdd(n, minus_slope, d * load(some, gain + i)));
  });
}

void projection_squares(Tensor squares, Tensor x, const Heads& heads, double key_share) {
  const std::int64_t queries = heads.query(), keys = heads.kv_heads * heads.width;
  with_float(x.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    trireme::cpu::parallel_for(
        x.rows(), row_grain(heads.qkv()), [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t token = first; token < last; ++token) {
            const T* const row = at<T>(x, token * heads.qkv());
            A* const to = at<A>(squares, 2 * token);
            to[0] = sum_of_squares(row, queries);
            to[1] = sum_of_squares(row + queries, keys) * static_cast<A>(key_share);
          }
        });
  });
}

void projection_norm(const ProjectionNorm& op) {
  const std::int64_t stride = op.heads.qkv();
  const std::int64_t normed = (op.heads.heads + op.heads.kv_heads) * op.heads.width;
  with_float(op.x.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    trireme::cpu::parallel_for(
        op.x.rows(), row_grain(stride), [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t token = first; token < last; ++token) {
            const T* const x = at<T>(op.x, token * stride);
            T* const y = at<T>(op.y, token * stride);
            for (const int part : {0, 1}) {
              const auto p = projection<T>(op, part);
              const A* const squares = at<A>(op.squares, 2 * token + part);
              normalize(y + p.first, x + p.first, p.gain, p.width,
                        static_cast<A>(inverse_rms(squares, p.whole_width, op.epsilon)));
            }
            if (x != y) std::copy(x + normed, x + stride, y + normed);
          }
        });
  });
}

void projection_dots(const ProjectionNormBackward& op) {
  const std::int64_t stride = op.heads.qkv();
  with_float(op.x.dtype, [&]<class T>(T) {
    trireme::cpu::parallel_for(
        op.x.rows(), row_grain(stride), [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t token = first; token < last; ++token) {
            for (const int part : {0, 1}) {
              const auto p = projection<T>(op, part);
              const std::int64_t start = token * stride + p.first;
              *at<Accumulator<T>>(op.dots, 2 * token + part) =
                  sum_of_products(at<T>(op.dqkv, start), p.gain, at<T>(op.x, start), p.width);
            }
          }
        });
  });
}

void projection_norm_backward(Tensor partial, const ProjectionNormBackward& op) {
  const std::int64_t stride = op.heads.qkv(), tokens = op.x.rows(), columns = partial.width();
  with_float(op.x.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    trireme::cpu::parallel_for(row_chunks(tokens, {}), 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t chunk = from; chunk < to; ++chunk) {
        A* const gains = at<A>(partial, chunk * columns);
        std::fill(gains, gains + columns, A(0));
        const std::int64_t first = chunk * kCpuRowChunk,
                           last = std::min(first + kCpuRowChunk, tokens);
        for (std::int64_t token = first; token < last; ++token) {
          for (const int part : {0, 1}) {
            const auto p = projection<T>(op, part);
            const std::int64_t start = token * stride + p.first;
            const double inverse =
                inverse_rms(at<A>(op.squares, 2 * token + part), p.whole_width, op.epsilon);
            const double share = part == 0 ? 1 : op.key_share;
            const double dot = static_cast<double>(*at<A>(op.dots, 2 * token + part));
            normalize_backward(at<T>(op.dqkv, start), gains + p.first, at<T>(op.x, start), p.gain,
                               p.width, static_cast<A>(inverse),
                               static_cast<A>(share * dot * inverse / p.whole_width));
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(projection_squares);
HWY_EXPORT(projection_norm);
HWY_EXPORT(projection_dots);
HWY_EXPORT(projection_norm_backward);

void projection_squares(Stream&, Tensor squares, Tensor x, const Heads& heads, double key_share) {
  HWY_DYNAMIC_DISPATCH(projection_squares)(squares, x, heads, key_share);
}
void projection_norm(Stream&, const ProjectionNorm& op) {
  HWY_DYNAMIC_DISPATCH(projection_norm)(op);
}
void projection_dots(Stream&, const ProjectionNormBackward& op) {
  HWY_DYNAMIC_DISPATCH(projection_dots)(op);
}
void projection_norm_backward(Stream&, Tensor partial, const ProjectionNormBackward& op) {
  HWY_DYNAMIC_DISPATCH(projection_norm_backward)(partial, op);
  column_sums(op.dquery_gain, partial, op.accumulate);
  column_sums(op.dkey_gain, partial, op.accumulate, op.heads.query());
}

}  // namespace trireme::ops::cpu
#endif
