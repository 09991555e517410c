#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/base/half.h"

namespace trireme {

// Checkpoints store names, not these numbers.
enum class DType : std::uint8_t { kF32, kF64, kBf16, kF16, kI32 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
  }
  return 0;
}

constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::kF64:
      return "float64";
    case DType::kBf16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kF32:
      return "float32";
    case DType::kI32:
      return "int32";
  }
  return "";
}

// bfloat16, the upper half of a float32. Arithmetic is in float; conversion rounds to nearest even.
struct Bf16 {
  std::uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>(word >> 16 | 0x40);  // NaN stays NaN
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1)) >> 16);
    }
  }
  explicit operator float() const {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

// IEEE 754 binary16: more mantissa bits than Bf16, but a maximum of 65504. Arithmetic is in float.
struct F16 {
  std::uint16_t bits = 0;
  F16() = default;
  explicit F16(float value) : bits(half_bits(value)) {}
  explicit operator float() const { return half_value(bits); }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType kValue = DType::kBf16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType kValue = DType::kF16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::kI32;
};

// Accumulator dtype of `type`: float64 for float64, otherwise float32.
constexpr DType accumulator_of(DType type) {
  return type == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace trireme
