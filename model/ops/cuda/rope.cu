#include "model/ops/rope.h"

#include <algorithm>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;

constexpr int kThreads = 256;

// A block rotates one token; its rows of threads divide the token's heads, and each thread reuses
// its cosines and sines for all heads.
template <int kCount, class T>
__global__ void rope_kernel(T* qkv, const std::int32_t* positions, const Sum<T>* table,
                            std::int64_t stride, int heads, int width, bool backward) {
  using A = Sum<T>;
  const int half = width / 2;
  const std::int64_t token = blockIdx.x;
  const A* turn = table + static_cast<std::int64_t>(positions[token]) * width;
  T* row = qkv + token * stride;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < half; i += blockDim.x * kCount) {
    A cosine[kCount], sine[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      cosine[k] = turn[i + k];
      sine[k] = backward ? -turn[half + i + k] : turn[half + i + k];
    }
    for (int head = static_cast<int>(threadIdx.y); head < heads; head += blockDim.y) {
      T* low = row + static_cast<std::int64_t>(head) * width + i;
      T* high = low + half;
      A a[kCount], b[kCount];
      load(a, low);
      load(b, high);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const A turned = fma(a[k], cosine[k], -(b[k] * sine[k]));
        b[k] = fma(b[k], cosine[k], a[k] * sine[k]);
        a[k] = turned;
      }
      store(low, a);
      store(high, b);
    }
  }
}

}  // namespace

void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, const Heads& heads,
          bool backward) {
  with_float(qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto turned = static_cast<int>(heads.heads + heads.kv_heads);
    const auto run = [&]<int n>(Count<n>) {
      const int packs = static_cast<int>(heads.width) / 2 / n;
      const int lanes = std::clamp(packs, 1, 32);
      const dim3 block(static_cast<unsigned>(lanes),
                       static_cast<unsigned>(std::min(turned, kThreads / lanes)));
      launch(rope_kernel<n, T>, extent(positions.count()), block, 0, stream, at<T>(qkv),
             at<std::int32_t>(positions), at<Sum<T>>(table), heads.qkv(), turned,
             static_cast<int>(heads.width), backward);
    };
    with_packs<T>(heads.width / 2, run, qkv);
  });
}

}  // namespace trireme::ops::cuda
