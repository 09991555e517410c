#include "model/ops/part_attention.h"

#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/attention_own.h"
#include "model/ops/cuda/head_teams.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;

// Number of keys of a sequence before a row; without key_rows key k is row k.
__device__ int keys_before(const std::int32_t* key_rows, int keys, int row) {
  if (!key_rows) return min(row, keys);
  int low = 0, high = keys;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (key_rows[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Of each query the keys [first, end) that it sees, by their index among the sequence's.
__global__ __launch_bounds__(kThreads) void seen_keys(std::int32_t* firsts, std::int32_t* ends,
                                                      const std::int32_t* rows,
                                                      const std::int32_t* first_seen,
                                                      const std::int32_t* key_rows,
                                                      std::int64_t queries, int seq, int keys) {
  const std::int64_t query = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (query >= queries) return;
  if (key_rows) key_rows += query / seq * keys;
  firsts[query] = keys_before(key_rows, keys, first_seen[query]);
  ends[query] =
      keys_before(key_rows, keys, (rows ? rows[query] : static_cast<int>(query % seq)) + 1);
}

// `workspace` is that of part_workspace.
template <class T>
PartHeads<T> part_of(Stream& stream, Tensor workspace, const PartAttention& part,
                     const AttentionShape& shape, bool vectors) {
  const std::int64_t queries = shape.batch * shape.seq;
  auto* const firsts = reinterpret_cast<std::int32_t*>(workspace.data);
  std::int32_t* const ends = firsts + queries;
  const auto keys = static_cast<int>(part.keys);
  launch(seen_keys, extent(parts(queries, kThreads)), kThreads, 0, stream, firsts, ends,
         at<std::int32_t>(part.rows), part.first_seen.as<std::int32_t>(),
         at<std::int32_t>(part.key_rows), queries, static_cast<int>(shape.seq), keys);
  return {heads_of<T>(part.qkv, firsts, shape, vectors), part.kv.as<T>(), ends, keys};
}

template <int n, class T>
__global__ __launch_bounds__(kHeadThreads) void merge_rows(Sum<T>* sum, Sum<T>* sum_lse,
                                                           const T* out, const Sum<T>* lse,
                                                           std::int64_t rows, int width) {
  using A = Sum<T>;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const bool exists = row < rows;
  const A before = exists ? sum_lse[row] : A(0), added = exists ? lse[row] : A(0);
  __syncwarp();  // all lanes have read the sum's
  // A row that saw none of the part's keys stays, be it empty or not.
  if (!exists || added == -INFINITY) return;
  // exp of the smaller of the two over the larger cannot overflow.
  const A above = added - before, ratio = std::exp(above < 0 ? above : -above);
  const A larger_share = 1 / (1 + ratio), smaller_share = ratio / (1 + ratio);
  const A old_share = above < 0 ? larger_share : smaller_share;
  const A new_share = above < 0 ? smaller_share : larger_share;
  if (threadIdx.x == 0) sum_lse[row] = (above < 0 ? before : added) + std::log1p(ratio);
  for (int i = static_cast<int>(threadIdx.x) * n; i < width;
       i += static_cast<int>(blockDim.x) * n) {
    A s[n], v[n];
    load(s, sum + row * width + i);
    load(v, out + row * width + i);
#pragma unroll
    for (int k = 0; k < n; ++k) s[k] = s[k] * old_share + v[k] * new_share;
    store(sum + row * width + i, s);
  }
}

}  // namespace

void part_attention(Stream& stream, Tensor workspace, Tensor out, Tensor lse,
                    const PartAttention& part, const AttentionShape& shape) {
  const std::int64_t width = shape.heads.width;
  const bool vectors =
      in_vectors(part.qkv, width) && in_vectors(part.kv, width) && in_vectors(out, width);
  with_float(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    launch_attention(stream, static_cast<int>(shape.batch),
                     part_of<T>(stream, workspace, part, shape, vectors),
                     AttentionResult<T, A>{.out = out.as<T>(), .lse = lse.as<A>()});
  });
}

void part_attention_backward(Stream& stream, Tensor workspace, const PartAttentionBackward& how,
                             const PartAttention& part, const AttentionShape& shape) {
  const std::int64_t width = shape.heads.width, seen = part_workspace(shape);
  const Tensor delta = workspace.slice(seen, workspace.count() - seen);
  attention_delta(stream, delta, how.dout, how.out, width);
  bool vectors = true;
  for (const Tensor& tensor : {part.qkv, part.kv, how.dq, how.dkv, how.dout}) {
    if (tensor) vectors = vectors && in_vectors(tensor, width);
  }
  with_float(how.dout.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    launch_attention_backward(stream, static_cast<int>(shape.batch),
                              part_of<T>(stream, workspace, part, shape, vectors),
                              PartGradient<T, A>{.dq = at<T>(how.dq),
                                                 .dkv = at<T>(how.dkv),
                                                 .dout = how.dout.as<T>(),
                                                 .lse = how.lse.as<A>(),
                                                 .delta = delta.as<A>()});
  });
}

void merge_attention(Stream& stream, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse,
                     const Heads& heads) {
  with_float(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Sum<T>;
    const auto run = [&]<int n>(Count<n>, unsigned grid, dim3 block) {
      launch(merge_rows<n, T>, grid, block, 0, stream, sum.as<A>(), sum_lse.as<A>(), out.as<T>(),
             lse.as<A>(), lse.count(), static_cast<int>(heads.width));
    };
    over_heads<T>(lse.count(), heads.width, run, sum, out);
  });
}

}  // namespace trireme::ops::cuda
