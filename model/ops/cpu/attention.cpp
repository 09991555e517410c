#include "model/ops/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "model/device/memory.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/attention.h"

namespace trireme::ops::cpu {
namespace {

// Target number of tasks per thread when heads are split: query tiles differ in cost, so threads
// that finish early need more work.
constexpr std::int64_t kTasksPerThread = 2;

std::int64_t threads_for(const AttentionShape& shape) {
  const std::int64_t most = shape.batch * shape.heads.heads * simd::attention_tiles(shape.seq);
  return std::min<std::int64_t>(omp_get_max_threads(), most);
}

// Number of shares, at most `most`, for each of `heads` heads.
std::int64_t shares_for(std::int64_t heads, std::int64_t threads, std::int64_t most) {
  if (heads >= kTasksPerThread * threads) return 1;
  return std::clamp<std::int64_t>((kTasksPerThread * threads + heads - 1) / heads, 1, most);
}

// Calls body(batch, kv_head, share, workspace of this thread) for each share of each head.
template <class Body>
void each_share(const AttentionShape& shape, std::int64_t shares, Tensor workspace,
                const Body& body) {
  const std::int64_t tasks = shape.batch * shape.heads.kv_heads * shares;
  const int threads = static_cast<int>(std::min(workspace.rows(), tasks));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t head = task / shares;
    body(head / shape.heads.kv_heads, head % shape.heads.kv_heads, task % shares,
         workspace.row_slice(omp_get_thread_num(), 1));
  }
}

template <class T>
simd::AttentionHead<T> head_of(Tensor qkv, Tensor document_start, const AttentionShape& shape,
                               std::int64_t batch, std::int64_t kv_head) {
  const Heads& heads = shape.heads;
  const std::int64_t group = heads.heads / heads.kv_heads, first = batch * shape.seq;
  const T* const row = at<T>(qkv, first * heads.qkv());
  return {.q = row + kv_head * group * heads.width,
          .k = row + (heads.heads + kv_head) * heads.width,
          .v = row + (heads.heads + heads.kv_heads + kv_head) * heads.width,
          .document_start = at<std::int32_t>(document_start, first),
          .stride = heads.qkv(),
          .out_stride = heads.query(),
          .lse_stride = heads.heads,
          .seq = shape.seq,
          .width = heads.width,
          .group = group,
          .scale = shape.scale};
}

}  // namespace

Shape attention_workspace(Device, const AttentionShape& shape, DType dtype) {
  const std::int64_t seq = shape.seq, width = shape.heads.width;
  return {threads_for(shape), dtype == DType::kF64 ? simd::attention_workspace<double>(seq, width)
                                                   : simd::attention_workspace<float>(seq, width)};
}

Shape attention_backward_workspace(Device, const AttentionShape& shape, DType dtype) {
  const std::int64_t seq = shape.seq, width = shape.heads.width;
  return {threads_for(shape), dtype == DType::kF64
                                  ? simd::attention_backward_workspace<double>(seq, width)
                                  : simd::attention_backward_workspace<float>(seq, width)};
}

void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape& shape) {
  const std::int64_t group = shape.heads.heads / shape.heads.kv_heads;
  const std::int64_t shares = shares_for(shape.batch * shape.heads.kv_heads, workspace.rows(),
                                         group * simd::attention_tiles(shape.seq));
  with_kernels(qkv.dtype, [&]<simd::Isa isa, class T>() {
    each_share(shape, shares, workspace,
               [&](std::int64_t batch, std::int64_t kv_head, std::int64_t share, Tensor mine) {
                 const std::int64_t row = batch * shape.seq, head = kv_head * group;
                 simd::attention<isa, T>(
                     at<T>(out, row * shape.heads.query() + head * shape.heads.width),
                     at<simd::Sum<T>>(lse, row * shape.heads.heads + head),
                     head_of<T>(qkv, document_start, shape, batch, kv_head), {share, shares},
                     at<simd::Sum<T>>(mine));
               });
  });
}

void attention_backward(Stream&, Tensor workspace, const AttentionBackward& how,
                        const AttentionShape& shape) {
  const Heads& heads = shape.heads;
  const std::int64_t group = heads.heads / heads.kv_heads;
  const std::int64_t tiles = simd::attention_tiles(shape.seq);
  const std::int64_t all = shape.batch * heads.kv_heads, threads = workspace.rows();
  const auto go = [&](std::int64_t shares, bool want_dq, bool want_dkv) {
    with_kernels(how.qkv.dtype, [&]<simd::Isa isa, class T>() {
      each_share(shape, shares, workspace,
                 [&](std::int64_t batch, std::int64_t kv_head, std::int64_t share, Tensor mine) {
                   const std::int64_t row = batch * shape.seq, head = kv_head * group;
                   T* const gradient = at<T>(how.dqkv, row * heads.qkv());
                   const std::int64_t out = row * heads.query() + head * heads.width;
                   simd::attention_backward<isa, T>(
                       {.dq = gradient + head * heads.width,
                        .dk = gradient + (heads.heads + kv_head) * heads.width,
                        .dv = gradient + (heads.heads + heads.kv_heads + kv_head) * heads.width,
                        .out = at<T>(how.out, out),
                        .dout = at<T>(how.dout, out),
                        .lse = at<simd::Sum<T>>(how.lse, row * heads.heads + head),
                        .queries = want_dkv ? simd::Share{} : simd::Share{share, shares},
                        .keys = want_dkv ? simd::Share{share, shares} : simd::Share{},
                        .want_dq = want_dq,
                        .want_dkv = want_dkv},
                       head_of<T>(how.qkv, how.document_start, shape, batch, kv_head),
                       at<simd::Sum<T>>(mine));
                 });
    });
  };
  // Whole heads take five products per pair of tiles. Splitting heads takes two passes and seven
  // products, which pays off if whole heads would leave threads idle.
  const std::int64_t rounds = (all + threads - 1) / threads;
  if (5 * rounds * threads <= 7 * all) return go(1, true, true);
  go(shares_for(all, threads, tiles), false, true);
  go(shares_for(all, threads, group * tiles), true, false);
}

void attention_cached(Stream&, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads& heads, double scale) {
  const std::int64_t tokens = qkv.rows(), width = heads.kv_heads * heads.width;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * size_of(qkv.dtype);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Tensor row = qkv.row_slice(token, 1);
    std::memcpy(keys.row_slice(first + token, 1).data, row.slice(heads.query(), width).data,
                row_bytes);
    std::memcpy(values.row_slice(first + token, 1).data,
                row.slice(heads.query() + width, width).data, row_bytes);
  }
  const std::int64_t tasks = tokens * heads.heads, group = heads.heads / heads.kv_heads;
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), tasks));
  with_kernels(qkv.dtype, [&]<simd::Isa isa, class T>() {
    using A = simd::Sum<T>;
    const std::int64_t padded = simd::padded_width<A>(heads.width);
    const Memory sums(static_cast<std::size_t>(threads * padded) * sizeof(A), Device{});
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t token = task / heads.heads, head = task % heads.heads;
      const std::int64_t kv = head / group * heads.width;
      simd::attention_cached<isa, T>(
          {.out = at<T>(out, token * heads.query() + head * heads.width),
           .q = at<T>(qkv, token * heads.qkv() + head * heads.width),
           .k = at<T>(keys, kv),
           .v = at<T>(values, kv),
           .stride = width,
           .keys = first + token + 1,
           .width = heads.width,
           .scale = scale},
          reinterpret_cast<A*>(sums.data()) + omp_get_thread_num() * padded);
    }
  });
}

}  // namespace trireme::ops::cpu
