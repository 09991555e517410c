#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "model/tensor/tensor.h"

namespace trireme {

// A tensor that owns its elements, for tests.
class OwnedTensor {
 public:
  OwnedTensor(Shape shape, DType dtype)
      : bytes_(static_cast<std::size_t>(shape.count()) * size_of(dtype) + 64),
        shape_(shape),
        dtype_(dtype) {}
  operator Tensor() {  // NOLINT(google-explicit-constructor): it stands in for one
    return {aligned(), dtype_, shape_, Device{}};
  }
  Tensor view() { return *this; }

  double get(std::int64_t i) {
    const Tensor t = *this;
    if (dtype_ == DType::kF64) return t.as<double>()[i];
    if (dtype_ == DType::kF32) return t.as<float>()[i];
    if (dtype_ == DType::kI32) return t.as<std::int32_t>()[i];
    if (dtype_ == DType::kF16) return static_cast<float>(t.as<F16>()[i]);
    return static_cast<float>(t.as<Bf16>()[i]);
  }
  void set(std::int64_t i, double value) {
    const Tensor t = *this;
    if (dtype_ == DType::kF64)
      t.as<double>()[i] = value;
    else if (dtype_ == DType::kF32)
      t.as<float>()[i] = static_cast<float>(value);
    else if (dtype_ == DType::kI32)
      t.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    else if (dtype_ == DType::kF16)
      t.as<F16>()[i] = F16(static_cast<float>(value));
    else
      t.as<Bf16>()[i] = Bf16(static_cast<float>(value));
  }
  std::vector<double> values() {
    std::vector<double> all(static_cast<std::size_t>(shape_.count()));
    for (std::int64_t i = 0; i < shape_.count(); ++i) all[i] = get(i);
    return all;
  }
  // Uniform in [-1, 1), rounded to the dtype.
  OwnedTensor& randomize(std::uint32_t seed) {
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < shape_.count(); ++i)
      set(i, (static_cast<double>(random() >> 8) / (1 << 23)) - 1);
    return *this;
  }
  OwnedTensor& fill(double value) {
    for (std::int64_t i = 0; i < shape_.count(); ++i) set(i, value);
    return *this;
  }
  bool same_bits(OwnedTensor& other) {
    const Tensor a = *this, b = other;
    return a.dtype == b.dtype && a.shape == b.shape && std::memcmp(a.data, b.data, a.bytes()) == 0;
  }

 private:
  std::byte* aligned() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }
  std::vector<std::byte> bytes_;
  Shape shape_;
  DType dtype_;
};

}  // namespace trireme
