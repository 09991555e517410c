#include "model/ops/rope.h"

#include <algorithm>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;  // at most
constexpr int kAhead = 3;      // heads of a thread whose loads are in flight together

// A block rotates one token; its rows of threads divide the token's heads, and each thread reuses
// its cosines and sines for all heads.
template <int n, class T>
__global__ void rope_kernel(T* qkv, const std::int32_t* positions, const Sum<T>* table,
                            std::int64_t stride, int heads, int width, bool backward) {
  using A = Sum<T>;
  const int half = width / 2, apart = static_cast<int>(blockDim.y);
  const std::int64_t token = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x) * n; i < half; i += blockDim.x * n) {
    T* const row = qkv + token * stride + i;
    for (int head = static_cast<int>(threadIdx.y); head < heads; head += kAhead * apart) {
      Pack<T, n> low[kAhead], high[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (head + j * apart >= heads) continue;
        low[j] = pack_at<n>(row + (head + j * apart) * width);
        high[j] = pack_at<n>(row + (head + j * apart) * width + half);
      }
      const A* turn = table + static_cast<std::int64_t>(positions[token]) * width + i;
      A cosine[n], sine[n];
      load(cosine, turn);
      load(sine, turn + half);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (head + j * apart >= heads) continue;
        A a[n], b[n];
        widen(a, low[j]);
        widen(b, high[j]);
#pragma unroll
        for (int k = 0; k < n; ++k) {
          const A turned_sine = backward ? -sine[k] : sine[k];
          const A turned = fma(a[k], cosine[k], -(b[k] * turned_sine));
          b[k] = fma(b[k], cosine[k], a[k] * turned_sine);
          a[k] = turned;
        }
        store(row + (head + j * apart) * width, a);
        store(row + (head + j * apart) * width + half, b);
      }
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
                       extent(std::min<std::int64_t>(parts(turned, kAhead), kThreads / lanes)));
      launch(rope_kernel<n, T>, extent(positions.count()), block, 0, stream, at<T>(qkv),
             at<std::int32_t>(positions), at<Sum<T>>(table), heads.qkv(), turned,
             static_cast<int>(heads.width), backward);
    };
    with_packs<T>(heads.width / 2, run, qkv, table);
  });
}

}  // namespace trireme::ops::cuda
