#include "parallel/comm/cuda/ordered_reduce.h"

#include "model/device/cuda/launch.cuh"

namespace trireme::comm::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;

// Accumulator value of a T: float for 16-bit types; int32 wraps without overflow.
__device__ float widened(float value) {
  return value;
}
__device__ double widened(double value) {
  return value;
}
__device__ std::uint32_t widened(std::int32_t value) {
  return static_cast<std::uint32_t>(value);
}
__device__ float widened(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
// As in model/base/half.h.
__device__ float widened(F16 value) {
  const unsigned sign = (value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return __uint_as_float(sign | magnitude << 13 | 0x7f800000u);
  if (magnitude >= 0x400u) return __uint_as_float(sign | ((magnitude << 13) + 0x38000000u));
  const float small = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -small : small;
}

template <class T, class Wide>
__device__ T narrowed(Wide value) {
  return static_cast<T>(value);
}
template <>
__device__ Bf16 narrowed<Bf16, float>(float value) {
  const unsigned word = __float_as_uint(value);
  const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
  Bf16 rounded;
  rounded.bits = static_cast<std::uint16_t>(is_nan ? word >> 16 | 0x40
                                                   : (word + 0x7fffu + (word >> 16 & 1)) >> 16);
  return rounded;
}

template <>
__device__ F16 narrowed<F16, float>(float value) {
  const unsigned word = __float_as_uint(value), magnitude = word & 0x7fffffffu;
  unsigned bits = (magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
  if (magnitude < 0x38800000u)
    bits = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
  if (magnitude >= 0x477ff000u) bits = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  F16 rounded;
  rounded.bits = static_cast<std::uint16_t>((word >> 16 & 0x8000u) | bits);
  return rounded;
}

template <class Wide>
__device__ Wide larger(Wide a, Wide b) {
  return b > a || b != b ? b : a;
}
__device__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(b) > static_cast<std::int32_t>(a) ? b : a;
}

template <Reduce kReduce, class Wide>
__device__ Wide joined(Wide a, Wide b) {
  return kReduce == Reduce::kSum ? a + b : larger(a, b);
}

constexpr int kLevels = 18;  // fewer than 2^18 ranks

template <Reduce kReduce, class T>
__global__ void reduce_each(const T* others, const T* own, int own_rank, int ranks, T* out,
                            std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  using Wide = decltype(widened(T{}));
  // A binary counter: after `r` ranks, runs[l] is a partial sum of 2^l ranks if bit l of r is set.
  // The loops over l are unrolled to keep the sums in registers.
  Wide runs[kLevels] = {};
  for (int r = 0; r < ranks; ++r) {
    const T* const from = r == own_rank ? own : others + (r < own_rank ? r : r - 1) * count;
    Wide carried = widened(from[i]);
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      if ((r >> l & 1) == 0) {
        runs[l] = carried;
        break;
      }
      carried = joined<kReduce>(runs[l], carried);
    }
  }
  Wide value{};
  bool has_value = false;
#pragma unroll
  for (int l = 0; l < kLevels; ++l) {
    if ((ranks >> l & 1) == 0) continue;
    value = has_value ? joined<kReduce>(runs[l], value) : runs[l];
    has_value = true;
  }
  out[i] = narrowed<T>(value);
}

template <class T>
void reduce_as(Stream& stream, Reduce reduce, const Contributions& from, std::byte* out,
               std::int64_t count) {
  const auto kernel =
      reduce == Reduce::kSum ? reduce_each<Reduce::kSum, T> : reduce_each<Reduce::kMax, T>;
  launch(kernel, dim3(extent(parts(count, kThreads))), dim3(kThreads), 0, stream,
         reinterpret_cast<const T*>(from.others), reinterpret_cast<const T*>(from.own),
         from.own_rank, from.ranks, reinterpret_cast<T*>(out), count);
}

}  // namespace

void reduce_in_order(Stream& stream, Reduce reduce, DType dtype, const Contributions& from,
                     std::byte* out, std::int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return reduce_as<float>(stream, reduce, from, out, count);
    case DType::kF64:
      return reduce_as<double>(stream, reduce, from, out, count);
    case DType::kBf16:
      return reduce_as<Bf16>(stream, reduce, from, out, count);
    case DType::kF16:
      return reduce_as<F16>(stream, reduce, from, out, count);
    case DType::kI32:
      return reduce_as<std::int32_t>(stream, reduce, from, out, count);
  }
}

}  // namespace trireme::comm::cuda
