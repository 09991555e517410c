#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

// Kernels over rows of heads: each row has a team of lanes of a warp along x, and a block has teams
// along y.
namespace trireme::ops::cuda {

inline constexpr int kHeadThreads = 256;

// Calls body(Count<n>, grid, block), with as many lanes per row as it has packs, at most a warp.
template <class T, class Body, class... Tensors>
void over_heads(std::int64_t count, std::int64_t width, const Body& body,
                const Tensors&... tensors) {
  with_packs<T>(
      width,
      [&]<int n>(Count<n> pack) {
        const auto packs = static_cast<std::uint64_t>(trireme::cuda::parts(width, n));
        const auto lanes =
            std::min<std::int64_t>(32, static_cast<std::int64_t>(std::bit_ceil(packs)));
        const std::int64_t teams = kHeadThreads / lanes;
        body(pack, trireme::cuda::extent(trireme::cuda::parts(count, teams)),
             dim3(trireme::cuda::extent(lanes), trireme::cuda::extent(teams)));
      },
      tensors...);
}

}  // namespace trireme::ops::cuda
