#include "model/ops/rope.h"

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/rope.h"

namespace trireme::ops::cpu {

void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads& heads, bool backward) {
  with_kernels(qkv.dtype, [&]<simd::Isa isa, class T>() {
    trireme::cpu::parallel_for(
        qkv.rows(), row_grain(heads.qkv()), [&](std::int64_t first, std::int64_t last) {
          simd::rope<isa, T>({.qkv = at<T>(qkv, first * heads.qkv()),
                              .positions = at<std::int32_t>(positions, first),
                              .table = at<simd::Sum<T>>(table),
                              .tokens = last - first,
                              .stride = heads.qkv(),
                              .heads = heads.heads + heads.kv_heads,
                              .width = heads.width,
                              .backward = backward});
        });
  });
}

}  // namespace trireme::ops::cpu
