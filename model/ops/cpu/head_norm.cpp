#include "model/ops/head_norm.h"

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/column_sums.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/head_norm.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cpu {

using simd::Isa;
using simd::Sum;

void head_norm(Stream&, const HeadNorm& op) {
  const Heads& heads = op.heads;
  const std::int64_t tokens = op.x.rows(), normed = heads.heads + heads.kv_heads;
  with_kernels(op.x.dtype, [&]<Isa isa, class T>() {
    trireme::cpu::parallel_for(
        tokens, row_grain(heads.qkv()), [&](std::int64_t first, std::int64_t last) {
          simd::head_norm<isa, T>({.y = at<T>(op.y, first * heads.qkv()),
                                   .inverse = at<Sum<T>>(op.inv_rms, first * normed),
                                   .x = at<T>(op.x, first * heads.qkv()),
                                   .query_gain = at<T>(op.query_gain),
                                   .key_gain = at<T>(op.key_gain),
                                   .tokens = last - first,
                                   .heads = heads.heads,
                                   .kv_heads = heads.kv_heads,
                                   .width = heads.width,
                                   .epsilon = op.epsilon});
        });
  });
}

void head_norm_backward(Stream&, Tensor partial, const HeadNormBackward& op) {
  const Heads& heads = op.heads;
  const std::int64_t tokens = op.x.rows(), normed = heads.heads + heads.kv_heads;
  with_kernels(op.x.dtype, [&]<Isa isa, class T>() {
    trireme::cpu::parallel_for(row_chunks(tokens, {}), 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t chunk = from; chunk < to; ++chunk) {
        const std::int64_t first = chunk * kCpuRowChunk;
        Sum<T>* gains = at<Sum<T>>(partial, chunk * 2 * heads.width);
        simd::head_norm_backward<isa, T>({.dqkv = at<T>(op.dqkv, first * heads.qkv()),
                                          .dquery_gain = gains,
                                          .dkey_gain = gains + heads.width,
                                          .x = at<T>(op.x, first * heads.qkv()),
                                          .query_gain = at<T>(op.query_gain),
                                          .key_gain = at<T>(op.key_gain),
                                          .inverse = at<Sum<T>>(op.inv_rms, first * normed),
                                          .tokens = std::min(kCpuRowChunk, tokens - first),
                                          .heads = heads.heads,
                                          .kv_heads = heads.kv_heads,
                                          .width = heads.width});
      }
    });
  });
  column_sums(op.dquery_gain, partial, op.accumulate);
  column_sums(op.dkey_gain, partial, op.accumulate, heads.width);
}

}  // namespace trireme::ops::cpu
