#include "model/ops/rope.h"

#include <algorithm>
#include <numeric>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;  // at most
constexpr int kAhead = 3;      // heads of a thread whose loads are in flight together

struct RopeShape {
  std::int64_t stride;  // of a token
  int heads, width, rotated;
  bool interleaved, backward;
};

// A block rotates one token; its rows of threads divide the token's heads, and each thread reuses
// its cosines and sines of n pairs for all heads.
template <int n, class T>
__global__ void rope_kernel(T* qkv, const std::int32_t* positions, const Sum<T>* table,
                            const RopeShape op) {
  using A = Sum<T>;
  const int half = op.rotated / 2, apart = static_cast<int>(blockDim.y);
  // From the first pack of the pairs to the second.
  const int second = op.interleaved ? n : half;
  const std::int64_t token = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x) * n; i < half; i += blockDim.x * n) {
    T* const row = qkv + token * op.stride + (op.interleaved ? 2 * i : i);
    for (int head = static_cast<int>(threadIdx.y); head < op.heads; head += kAhead * apart) {
      Pack<T, n> low[kAhead], high[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (head + j * apart >= op.heads) continue;
        low[j] = pack_at<n>(row + (head + j * apart) * op.width);
        high[j] = pack_at<n>(row + (head + j * apart) * op.width + second);
      }
      const A* turn = table + static_cast<std::int64_t>(positions[token]) * op.rotated + i;
      A cosine[n], sine[n];
      load(cosine, turn);
      load(sine, turn + half);
      const auto rotate = [&](A& a, A& b, int k) {
        const A turned_sine = op.backward ? -sine[k] : sine[k];
        const A turned = fma(a, cosine[k], -(b * turned_sine));
        b = fma(b, cosine[k], a * turned_sine);
        a = turned;
      };
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (head + j * apart >= op.heads) continue;
        A v[2][n];
        widen(v[0], low[j]);
        widen(v[1], high[j]);
        if (op.interleaved) {
#pragma unroll
          for (int k = 0; k < n; ++k)
            rotate(v[2 * k / n][2 * k % n], v[(2 * k + 1) / n][(2 * k + 1) % n], k);
        } else {
#pragma unroll
          for (int k = 0; k < n; ++k) rotate(v[0][k], v[1][k], k);
        }
        store(row + (head + j * apart) * op.width, v[0]);
        store(row + (head + j * apart) * op.width + second, v[1]);
      }
    }
  }
}

}  // namespace

void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, const Rope& op) {
  const Heads& heads = op.heads;
  with_float(qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    const RopeShape shape{.stride = heads.qkv(),
                          .heads = static_cast<int>(heads.heads + heads.kv_heads),
                          .width = static_cast<int>(heads.width),
                          .rotated = static_cast<int>(op.rotated),
                          .interleaved = op.interleaved,
                          .backward = op.backward};
    const auto run = [&]<int n>(Count<n>) {
      const int lanes = std::clamp(shape.rotated / 2 / n, 1, 32);
      const std::int64_t rows =
          std::min<std::int64_t>(parts(shape.heads, kAhead), kThreads / lanes);
      launch(rope_kernel<n, T>, extent(positions.count()), dim3(extent(lanes), extent(rows)), 0,
             stream, at<T>(qkv), at<std::int32_t>(positions), at<Sum<T>>(table), shape);
    };
    // Heads and their halves are whole packs.
    with_packs<T>(std::gcd(op.rotated / 2, heads.width), run, qkv, table);
  });
}

}  // namespace trireme::ops::cuda
