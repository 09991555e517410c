#include <algorithm>
#include <climits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/attention_backward_loads.cuh"
#include "model/ops/cuda/attention_backward_products.cuh"

// The two passes of attention_backward_mma.cu for compute capability 9.0, in one launch. One
// warpgroup loads tiles, two multiply. The rows of p and ds are a warpgroup's own rows in both
// passes, so that p and ds are left operands in registers. After FlashAttention-2 (Dao 2023,
// arXiv:2307.08691) and FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608).
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// Tensors with boxes of a pass's rows.
struct BackwardMaps {
  TensorMap qkv, dout;
};

template <class T, class P>
__device__ __forceinline__ void prepare(BackwardShared<T, P>& shared, const AttentionHeads<T>& in,
                                        int batch, int index) {
  const BackwardWalk walk = BackwardWalk::of<P>(in, batch, index);
  if (threadIdx.x != 0) return;
  shared.walk = walk;
  for (int i = 0; i < P::kStages; ++i) {
    start_barrier(shared.full + i, P::kOfKeys ? 33 : 1);
    start_barrier(shared.empty + i, 4 * P::kGroups);
  }
  start_barrier(&shared.own_full, 1);
  publish_barriers();
}

template <class T, class P>
__device__ __forceinline__ void load(BackwardShared<T, P>& shared, const AttentionHeads<T>& in,
                                     const AttentionGradient<T, float>& gradient,
                                     const BackwardMaps& maps) {
  if (threadIdx.x == 0) {
    load_boxes<P>(shared, in, maps.qkv, maps.dout);
  } else if (P::kOfKeys && threadIdx.x / 32 == 1) {
    load_readers<P>(shared, in, gradient);
  }
}

// Blocks of the pass K over keys, and then those of the pass Q over queries, which begin while the
// last of K are at work.
template <class T, class K, class Q>
__global__ __launch_bounds__(K::kThreads, 1) void attention_backward_wgmma(
    const __grid_constant__ BackwardMaps key_maps, const __grid_constant__ BackwardMaps query_maps,
    const AttentionHeads<T> in, const AttentionGradient<T, float> gradient, float scale, int batch,
    int key_blocks) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(K::kThreads == Q::kThreads && K::kTaken == Q::kTaken);
  auto* const start = trireme::cuda::dynamic_shared<unsigned char>();
  const auto past = static_cast<int>(shared_address(start) % kSwizzleBytes);
  unsigned char* const tiles = start + (kSwizzleBytes - past) % kSwizzleBytes;
  auto& of_keys = *reinterpret_cast<BackwardShared<T, K>*>(tiles);
  auto& of_queries = *reinterpret_cast<BackwardShared<T, Q>*>(tiles);
  const int block = static_cast<int>(blockIdx.x);
  const bool has_keys = block < key_blocks;
  if (threadIdx.x < 32) {
    if (has_keys) {
      prepare(of_keys, in, batch, block);
    } else {
      prepare(of_queries, in, batch, block - key_blocks);
    }
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<K::kGiven>();
    if (has_keys) {
      load(of_keys, in, gradient, key_maps);
    } else {
      load(of_queries, in, gradient, query_maps);
    }
  } else {
    take_registers<K::kTaken>();
    if (has_keys) {
      multiply_tiles<K>(of_keys, in, gradient, scale);
    } else {
      multiply_tiles<Q>(of_queries, in, gradient, scale);
    }
  }
#endif
}

template <class P, class T>
BackwardMaps maps_of(const AttentionHeads<T>& in, const AttentionGradient<T, float>& gradient,
                     int batch, int device) {
  HeadBoxes boxes{.first = in.qkv,
                  .batch = batch,
                  .seq = in.seq,
                  .heads = in.heads + 2 * in.kv_heads,
                  .width = P::W,
                  .rows = P::kRows};
  const TensorMap qkv = tensor_map_of<T>(boxes, device);
  boxes.first = gradient.dout;
  boxes.heads = in.heads;
  return {qkv, tensor_map_of<T>(boxes, device)};
}

template <class P, class T>
std::int64_t blocks_of(const AttentionHeads<T>& in, int batch) {
  return parts(in.seq, P::kOwn) * (P::kOfKeys ? in.kv_heads : in.heads) * batch;
}

template <class K, class Q, class T>
void launch_passes(Stream& stream, int batch, const AttentionHeads<T>& in,
                   const AttentionGradient<T, float>& gradient) {
  const int device = stream.device().index;
  const std::int64_t key_blocks = blocks_of<K>(in, batch);
  const std::size_t bytes = std::max(sizeof(BackwardShared<T, K>), sizeof(BackwardShared<T, Q>));
  launch(attention_backward_wgmma<T, K, Q>, extent(key_blocks + blocks_of<Q>(in, batch)),
         K::kThreads, kSwizzleBytes + bytes, stream, maps_of<K>(in, gradient, batch, device),
         maps_of<Q>(in, gradient, batch, device), in, gradient,
         static_cast<float>(in.scale) * kLog2E, batch, static_cast<int>(key_blocks));
}

template <int W, class T>
void launch_of_width(Stream& stream, int batch, const AttentionHeads<T>& in,
                     const AttentionGradient<T, float>& gradient) {
  using Keys = BackwardPlan<W, BackwardPass::kOfKeys>;
  using FewKeys = BackwardPlan<W, BackwardPass::kOfFewKeys>;
  using Queries = BackwardPlan<W, BackwardPass::kOfQueries>;
  // Blocks of early keys are twice as long as the average: with fewer than two for each
  // multiprocessor, most would wait for those. The order of sums then depends on the device.
  if (blocks_of<Keys>(in, batch) < 2 * multiprocessors_of(stream.device().index)) {
    launch_passes<FewKeys, Queries>(stream, batch, in, gradient);
  } else {
    launch_passes<Keys, Queries>(stream, batch, in, gradient);
  }
}

template <class T>
bool launch_of(Stream& stream, int batch, const AttentionHeads<T>& in,
               const AttentionGradient<T, float>& gradient) {
  if (!in.vectors || in.cap > 0 || !has_warpgroups(stream.device().index)) return false;
  if (std::int64_t{batch} * in.seq * in.heads > INT_MAX) return false;
  if (in.width == 64) {
    launch_of_width<64>(stream, batch, in, gradient);
  } else if (in.width == 128) {
    launch_of_width<128>(stream, batch, in, gradient);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool launch_attention_backward_wgmma(Stream& stream, int batch, const AttentionHeads<Bf16>& in,
                                     const AttentionGradient<Bf16, float>& gradient) {
  return launch_of(stream, batch, in, gradient);
}
bool launch_attention_backward_wgmma(Stream& stream, int batch, const AttentionHeads<F16>& in,
                                     const AttentionGradient<F16, float>& gradient) {
  return launch_of(stream, batch, in, gradient);
}

}  // namespace trireme::ops::cuda
