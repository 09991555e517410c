#include "model/ops/projection_norm.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/column_sums.h"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;

// Columns of a row of qkv: queries, keys, values.
template <class T>
struct Rows {
  T* y;  // or dy and dx
  const T *x, *query_gain, *key_gain;
  const Sum<T>*squares, *dots;  // [tokens, 2]
  int queries, normed, stride;  // ends of queries and of keys, and columns
  Sum<T> query_width, key_width, epsilon, key_share;

  __device__ bool is_key(int column) const { return column >= queries; }
  __device__ const T* gain(int column) const {
    return is_key(column) ? key_gain + (column - queries) : query_gain + column;
  }
  __device__ Sum<T> inverse(std::int64_t token, bool key) const {
    const Sum<T> mean = squares[2 * token + key] / (key ? key_width : query_width);
    return Sum<T>(1) / sqrt(mean + epsilon);
  }
};

// One block sums the queries' or the keys' terms of a token.
template <int n, class T, class Term>
__device__ Sum<T> sum_of_part(const Rows<T>& rows, const Term& term) {
  const bool key = blockIdx.y == 1;
  const int first = key ? rows.queries : 0, end = key ? rows.normed : rows.queries;
  Sum<T> mine = 0;
  for (int i = first + static_cast<int>(threadIdx.x) * n; i < end; i += kThreads * n) {
    mine += term(i);
  }
  return over_block<kThreads>(mine, [](Sum<T> a, Sum<T> b) { return a + b; });
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void squares_kernel(Sum<T>* squares, Rows<T> rows) {
  const T* const x = rows.x + std::int64_t{blockIdx.x} * rows.stride;
  const Sum<T> sum = sum_of_part<n>(rows, [&](int i) {
    Sum<T> v[n], part = 0;
    load(v, x + i);
#pragma unroll
    for (int k = 0; k < n; ++k) part = fma(v[k], v[k], part);
    return part;
  });
  if (threadIdx.x == 0) {
    squares[2 * blockIdx.x + blockIdx.y] = blockIdx.y == 1 ? sum * rows.key_share : sum;
  }
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void dots_kernel(Sum<T>* dots, Rows<T> rows) {
  const std::int64_t start = std::int64_t{blockIdx.x} * rows.stride;
  const Sum<T> sum = sum_of_part<n>(rows, [&](int i) {
    Sum<T> v[n], d[n], g[n], part = 0;
    load(v, rows.x + start + i);
    load(d, static_cast<const T*>(rows.y) + start + i);
    load(g, rows.gain(i));
#pragma unroll
    for (int k = 0; k < n; ++k) part = fma(d[k] * g[k], v[k], part);
    return part;
  });
  if (threadIdx.x == 0) dots[2 * blockIdx.x + blockIdx.y] = sum;
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void normalize_kernel(Rows<T> rows, int columns) {
  const std::int64_t token = blockIdx.x, start = token * rows.stride;
  for (int i = static_cast<int>(threadIdx.x) * n; i < columns; i += kThreads * n) {
    Sum<T> v[n];
    load(v, rows.x + start + i);
    if (i < rows.normed) {
      const Sum<T> inverse = rows.inverse(token, rows.is_key(i));
      Sum<T> g[n];
      load(g, rows.gain(i));
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = v[k] * inverse * g[k];
    }
    store(rows.y + start + i, v);
  }
}

// A thread processes n columns of a chunk of tokens.
template <int n, class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(Sum<T>* partial, Rows<T> rows,
                                                            std::int64_t tokens) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * n;
  if (i >= rows.normed) return;
  const bool key = rows.is_key(i);
  const Sum<T> width = key ? rows.key_width : rows.query_width,
               share = key ? rows.key_share : Sum<T>(1);
  Sum<T> gain[n], dgain[n] = {};
  load(gain, rows.gain(i));
  const std::int64_t first = std::int64_t{blockIdx.y} * kCudaRowChunk;
  const std::int64_t last = min(first + kCudaRowChunk, tokens);
  for (std::int64_t token = first; token < last; ++token) {
    Sum<T> v[n], d[n];
    load(v, rows.x + token * rows.stride + i);
    load(d, static_cast<const T*>(rows.y) + token * rows.stride + i);
    const Sum<T> inverse = rows.inverse(token, key);
    const Sum<T> slope = share * rows.dots[2 * token + key] * inverse / width;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      v[k] *= inverse;
      dgain[k] = fma(d[k], v[k], dgain[k]);
      d[k] = inverse * fma(v[k], -slope, d[k] * gain[k]);
    }
    store(rows.y + token * rows.stride + i, d);
  }
#pragma unroll
  for (int k = 0; k < n; ++k) partial[std::int64_t{blockIdx.y} * rows.normed + i + k] = dgain[k];
}

template <class T>
Rows<T> rows_of(Tensor y, Tensor x, const Heads& heads) {
  Rows<T> rows{};
  rows.y = y ? at<T>(y) : nullptr;
  rows.x = at<T>(x);
  rows.queries = static_cast<int>(heads.query());
  rows.normed = static_cast<int>((heads.heads + heads.kv_heads) * heads.width);
  rows.stride = static_cast<int>(heads.qkv());
  rows.key_share = 1;
  return rows;
}

// Of both structs of ops/projection_norm.h.
template <class T, class Op>
Rows<T> rows_of(Tensor y, const Op& op) {
  Rows<T> rows = rows_of<T>(y, op.x, op.heads);
  rows.query_gain = at<T>(op.query_gain);
  rows.key_gain = at<T>(op.key_gain);
  rows.squares = at<Sum<T>>(op.squares);
  rows.query_width = static_cast<Sum<T>>(op.query_width);
  rows.key_width = static_cast<Sum<T>>(op.key_width);
  rows.epsilon = static_cast<Sum<T>>(op.epsilon);
  return rows;
}

}  // namespace

void projection_squares(Stream& stream, Tensor squares, Tensor x, const Heads& heads,
                        double key_share) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    Rows<T> rows = rows_of<T>({}, x, heads);
    rows.key_share = static_cast<Sum<T>>(key_share);
    const auto run = [&]<int n>(Count<n>) {
      launch(squares_kernel<n, T>, dim3(extent(x.rows()), 2), kThreads, 0, stream,
             at<Sum<T>>(squares), rows);
    };
    with_packs<T>(heads.width, run, x);
  });
}

void projection_norm(Stream& stream, const ProjectionNorm& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows = rows_of<T>(op.y, op);
    const int columns = op.x.data == op.y.data ? rows.normed : rows.stride;
    const auto run = [&]<int n>(Count<n>) {
      launch(normalize_kernel<n, T>, extent(op.x.rows()), kThreads, 0, stream, rows, columns);
    };
    with_packs<T>(op.heads.width, run, op.x, op.y, op.query_gain, op.key_gain);
  });
}

void projection_dots(Stream& stream, const ProjectionNormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows = rows_of<T>(op.dqkv, op);
    const auto run = [&]<int n>(Count<n>) {
      launch(dots_kernel<n, T>, dim3(extent(op.x.rows()), 2), kThreads, 0, stream,
             at<Sum<T>>(op.dots), rows);
    };
    with_packs<T>(op.heads.width, run, op.x, op.dqkv, op.query_gain, op.key_gain);
  });
}

void projection_norm_backward(Stream& stream, Tensor partial, const ProjectionNormBackward& op) {
  with_float(op.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    Rows<T> rows = rows_of<T>(op.dqkv, op);
    rows.dots = at<Sum<T>>(op.dots);
    rows.key_share = static_cast<Sum<T>>(op.key_share);
    const auto run = [&]<int n>(Count<n>) {
      launch(backward_kernel<n, T>,
             dim3(extent(parts(rows.normed, kThreads * n)), extent(partial.rows())), kThreads, 0,
             stream, at<Sum<T>>(partial), rows, op.x.rows());
    };
    with_packs<T>(op.heads.width, run, op.x, op.dqkv, op.query_gain, op.key_gain);
  });
  column_sums(stream, op.dquery_gain, partial, op.accumulate);
  column_sums(stream, op.dkey_gain, partial, op.accumulate, op.heads.query());
}

}  // namespace trireme::ops::cuda
