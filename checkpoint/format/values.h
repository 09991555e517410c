#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "model/tensor/dtype.h"

namespace trireme::checkpoint {

template <class T, class Wide, class Visit>
void visit_as(std::span<const std::byte> bytes, Visit visit) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    visit(static_cast<double>(static_cast<Wide>(value)));
  }
}

// Calls visit(value as double) for every element of `bytes`.
template <class Visit>
void for_each_value(std::span<const std::byte> bytes, DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kF32:
      return visit_as<float, double>(bytes, visit);
    case DType::kF64:
      return visit_as<double, double>(bytes, visit);
    case DType::kI32:
      return visit_as<std::int32_t, double>(bytes, visit);
    case DType::kBf16:
      return visit_as<Bf16, float>(bytes, visit);
    case DType::kF16:
      return visit_as<F16, float>(bytes, visit);
  }
}

}  // namespace trireme::checkpoint
