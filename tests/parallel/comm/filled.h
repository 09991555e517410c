#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "model/tensor/tensor.h"
#include "parallel/comm/ordered_reduce.h"

// Tensors whose values every rank can work out for every other.
namespace trireme::tests {

// Element i of what `rank` holds: exact in every dtype but different in each place, with
// sums that are rounded.
template <class T>
T value_of(int rank, std::int64_t i) {
  const std::int64_t mixed = (i * 2654435761 + rank * 40503 + 12345) % 255 - 127;
  if constexpr (std::is_same_v<T, std::int32_t>) return static_cast<T>(mixed * 1'000'003);
  const float scale = (i + rank) % 3 == 0 ? 0x1p-20f : 3.0f;
  return static_cast<T>(Bf16(static_cast<float>(mixed) * scale).operator float());
}
template <>
inline Bf16 value_of<Bf16>(int rank, std::int64_t i) {
  return Bf16(value_of<float>(rank, i));
}

template <class T>
std::vector<T> filled(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = value_of<T>(rank, i);
  }
  return values;
}

template <class T>
Tensor over(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DTypeOf<T>::kValue,
          Shape{static_cast<std::int64_t>(values.size())}, Device{}};
}

// Bit for bit.
template <class T>
bool are_same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace trireme::tests
