#include "model/ops/cuda/attention_own.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/attention.h"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/values.cuh"
#include "model/ops/cuda/wgmma.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kRowThreads = 8;  // threads per dot product
constexpr int kRows = kThreads / kRowThreads;

// delta [rows] = sum of dout * out over rows of `width`.
template <class T>
__global__ __launch_bounds__(kThreads) void row_dots(Accumulator<T>* delta, const T* dout,
                                                     const T* out, std::int64_t rows, int width,
                                                     bool vectors) {
  using A = Accumulator<T>;
  constexpr int kLength = Vector<T>::kLength;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kRowThreads;
  A sum = 0;
  if (row < rows) {
    for (int i = static_cast<int>(threadIdx.x) % kRowThreads * kLength; i < width;
         i += kRowThreads * kLength) {
      const auto a = load_vector(dout + row * width + i, width - i, vectors);
      const auto b = load_vector(out + row * width + i, width - i, vectors);
#pragma unroll
      for (int e = 0; e < kLength; ++e) sum += widened(a.x[e]) * widened(b.x[e]);
    }
  }
  for (int apart = 1; apart < kRowThreads; apart *= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  if (row < rows && threadIdx.x % kRowThreads == 0) delta[row] = sum;
}

__global__ __launch_bounds__(kThreads) void window_starts(std::int32_t* first_seen,
                                                          const std::int32_t* document_start,
                                                          const std::int32_t* rows,
                                                          std::int64_t tokens, std::int64_t seq,
                                                          std::int64_t window) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (token >= tokens) return;
  const std::int64_t row = rows ? rows[token] : token % seq;
  const std::int64_t start = row - window + 1, document = document_start[token];
  first_seen[token] = static_cast<std::int32_t>(start > document ? start : document);
}

}  // namespace

void window_start(Stream& stream, Tensor first_seen, Tensor document_start, Tensor rows,
                  std::int64_t seq, std::int64_t window) {
  const std::int64_t tokens = first_seen.count();
  launch(window_starts, extent(parts(tokens, kThreads)), kThreads, 0, stream,
         first_seen.as<std::int32_t>(), document_start.as<std::int32_t>(),
         rows ? rows.as<std::int32_t>() : nullptr, tokens, seq, window);
}

bool has_warpgroup_attention(Device device, const AttentionShape& shape, DType dtype) {
  const std::int64_t width = shape.heads.width;
  return size_of(dtype) == 2 && shape.soft_cap == 0 && !shape.dropout &&
         (width == 64 || width == 128) && has_warpgroups(device.index);
}

void own_attention(Stream& stream, Tensor workspace, Tensor out, Tensor lse, Tensor qkv,
                   Tensor first_seen, const AttentionShape& shape) {
  const std::int64_t width = shape.heads.width;
  const bool vectors = in_vectors(qkv, width) && in_vectors(out, width);
  with_float(qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    launch_attention(
        stream, static_cast<int>(shape.batch),
        heads_of<T>(qkv, first_seen.as<std::int32_t>(), shape, vectors),
        AttentionResult<T, A>{.out = out.as<T>(),
                              .lse = lse.as<A>(),
                              .next = reinterpret_cast<std::int32_t*>(workspace.data)});
  });
}

void attention_delta(Stream& stream, Tensor delta, Tensor dout, Tensor out, std::int64_t width) {
  const std::int64_t rows = delta.count();
  with_float(dout.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(row_dots<T>, extent(parts(rows, kRows)), kThreads, 0, stream, delta.as<Accumulator<T>>(),
           dout.as<T>(), out.as<T>(), rows, static_cast<int>(width),
           in_vectors(dout, width) && in_vectors(out, width));
  });
}

void own_attention_backward(Stream& stream, Tensor delta, const AttentionBackward& how,
                            const AttentionShape& shape) {
  const std::int64_t width = shape.heads.width;
  attention_delta(stream, delta, how.dout, how.out, width);
  const bool vectors =
      in_vectors(how.qkv, width) && in_vectors(how.dqkv, width) && in_vectors(how.dout, width);
  with_float(how.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    launch_attention_backward(
        stream, static_cast<int>(shape.batch),
        heads_of<T>(how.qkv, how.first_seen.as<std::int32_t>(), shape, vectors),
        AttentionGradient<T, A>{.dqkv = how.dqkv.as<T>(),
                                .dout = how.dout.as<T>(),
                                .lse = how.lse.as<A>(),
                                .delta = delta.as<A>()});
  });
}

}  // namespace trireme::ops::cuda
