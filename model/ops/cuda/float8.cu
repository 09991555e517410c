#include "model/ops/cuda/float8.h"

#include <cuda_fp8.h>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/magnitudes.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kMagnitudeThreads = 512;
constexpr int kThreads = 256;      // per tile, four by four elements each
constexpr int kTile = 64;          // rows and columns
constexpr int kWords = kTile / 4;  // per row of codes

// parts[block] = the largest magnitude of the block's elements, as bits of a bfloat16, which are
// ordered by magnitude, with NaN on top.
__global__ __launch_bounds__(kMagnitudeThreads) void magnitude_kernel(unsigned* magnitudes,
                                                                      const uint2* from,
                                                                      std::int64_t packs) {
  const Larger larger;
  unsigned most = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kMagnitudeThreads;
  std::int64_t i = std::int64_t{blockIdx.x} * kMagnitudeThreads + threadIdx.x;
  constexpr int kAhead = 8;  // loads in flight
  for (; i < packs; i += kAhead * step) {
    uint2 pack[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      pack[k] = i + k * step < packs ? from[i + k * step] : make_uint2(0, 0);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      for (const unsigned word : {pack[k].x, pack[k].y}) most = larger(most, magnitude_of(word));
    }
  }
  most = over_block<kMagnitudeThreads>(most, larger);
  if (threadIdx.x == 0) magnitudes[blockIdx.x] = most;
}

template <Float8Format kFormat>
constexpr int kTop = float8_layout(kFormat).top;

// float8_scale for the bits of a bfloat16.
template <Float8Format kFormat>
__device__ Float8Scale scale_of(unsigned bits) {
  constexpr int kMost = 100;
  if (bits >= 0x7f80u) {
    const float nan = __uint_as_float(0x7fc00000u);
    return {nan, nan};
  }
  const int exponent = static_cast<int>(bits >> 7) - 127;
  const int shift = min(kMost, kTop<kFormat> - exponent - ((bits & 0x7f) > 0x60 ? 1 : 0));
  return {__uint_as_float(static_cast<unsigned>(127 + shift) << 23),
          __uint_as_float(static_cast<unsigned>(127 - shift) << 23)};
}

// The same from an inverse scale, a power of two or NaN.
__device__ Float8Scale scale_of_inverse(float inverse) {
  const unsigned bits = __float_as_uint(inverse);
  return {bits >= 0x7f800000u ? inverse : __uint_as_float((254u << 23) - bits), inverse};
}

// The codes of four bfloat16 values, the first lowest.
template <Float8Format kFormat>
__device__ unsigned codes_of(uint2 pack, float scale) {
  constexpr auto kKind = kFormat == Float8Format::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  const auto two = [scale](unsigned word) -> unsigned {
    const float2 pair = make_float2(__uint_as_float(word << 16) * scale,
                                    __uint_as_float(word & 0xffff0000u) * scale);
    return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, kKind);
  };
  return two(pack.x) | two(pack.y) << 16;
}

enum class Orientation : std::uint8_t { kPlain, kTransposed, kBoth };

// One tile of the matrix, of its transpose, or of both: each thread has four elements of four rows.
// The last rows come first: they are still in L2. Without magnitudes inverse_scale is given.
template <Float8Format kFormat, Orientation kOrientation>
__global__ __launch_bounds__(kThreads) void quantize_kernel(unsigned* plain, unsigned* transposed,
                                                            float* inverse_scale, const Bf16* from,
                                                            const unsigned* magnitudes,
                                                            int magnitude_count, int rows,
                                                            int columns) {
  const int x = static_cast<int>(threadIdx.x) % kWords, y = static_cast<int>(threadIdx.x) / kWords;
  const int tile_row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * kTile;
  const int tile_column = static_cast<int>(blockIdx.x) * kTile;
  const int row = tile_row + 4 * y, column = tile_column + 4 * x;
  const bool within = row < rows && column < columns;
  uint2 packs[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (within) {
      packs[i] = *reinterpret_cast<const uint2*>(from + std::int64_t{row + i} * columns + column);
    }
  }
  Float8Scale factor;
  if (magnitude_count == 0) {
    factor = scale_of_inverse(*inverse_scale);
  } else {
    const unsigned mine =
        static_cast<int>(threadIdx.x) < magnitude_count ? magnitudes[threadIdx.x] : 0;
    factor = scale_of<kFormat>(over_block<kThreads>(mine, Larger{}));
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *inverse_scale = factor.inverse;
  }
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = codes_of<kFormat>(packs[i], factor.scale);
    if constexpr (kOrientation != Orientation::kTransposed) {
      if (within) plain[(std::int64_t{row + i} * columns + column) / 4] = words[i];
    }
  }
  if constexpr (kOrientation != Orientation::kPlain) {
    __shared__ unsigned tile[kTile][kWords + 1];  // columns in different banks
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned turned = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) turned |= (words[i] >> 8 * j & 0xffu) << 8 * i;
      tile[4 * x + j][y] = turned;
    }
    __syncthreads();
    for (int j = y; j < kTile; j += kWords) {
      const int to_row = tile_column + j, to_column = tile_row + 4 * x;
      if (to_row < columns && to_column < rows)
        transposed[(std::int64_t{to_row} * rows + to_column) / 4] = tile[j][x];
    }
  }
}

template <Float8Format kFormat, Orientation kOrientation>
void quantize_in(const Stream& stream, const Quantization& op, const Tensor& magnitudes) {
  const Tensor& from = op.from;
  launch(quantize_kernel<kFormat, kOrientation>,
         dim3(extent(parts(from.width(), kTile)), extent(parts(from.rows(), kTile))), kThreads, 0,
         stream, reinterpret_cast<unsigned*>(op.codes.data),
         reinterpret_cast<unsigned*>(op.transposed.data), op.inverse_scale.as<float>(),
         from.as<Bf16>(), reinterpret_cast<const unsigned*>(magnitudes.data),
         magnitudes ? static_cast<int>(magnitudes.count()) : 0, static_cast<int>(from.rows()),
         static_cast<int>(from.width()));
}

template <Float8Format kFormat>
void quantize_as(const Stream& stream, const Quantization& op, const Tensor& magnitudes) {
  if (!op.transposed) {
    quantize_in<kFormat, Orientation::kPlain>(stream, op, magnitudes);
  } else if (!op.codes) {
    quantize_in<kFormat, Orientation::kTransposed>(stream, op, magnitudes);
  } else {
    quantize_in<kFormat, Orientation::kBoth>(stream, op, magnitudes);
  }
}

}  // namespace

void quantize(Stream& stream, const Quantization& op, Tensor parts) {
  const Tensor& from = op.from;
  require(aligned(sizeof(uint2), from), "quantize: from is not aligned to ", sizeof(uint2),
          " bytes");
  const Tensor magnitudes = parts ? parts : op.magnitudes;
  if (parts) {
    launch(magnitude_kernel, dim3(extent(parts.count())), kMagnitudeThreads, 0, stream,
           reinterpret_cast<unsigned*>(parts.data), reinterpret_cast<const uint2*>(from.data),
           from.count() / 4);
  }
  if (op.format == Float8Format::kE4M3) {
    quantize_as<Float8Format::kE4M3>(stream, op, magnitudes);
  } else {
    quantize_as<Float8Format::kE5M2>(stream, op, magnitudes);
  }
}

}  // namespace trireme::ops::cuda
