#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <class T>
struct RopeTokens {
  T* qkv = nullptr;  // [tokens, stride]; rotates the first `heads` heads
  const std::int32_t* positions = nullptr;
  const Sum<T>* table = nullptr;
  std::int64_t tokens = 0, stride = 0, heads = 0, width = 0;
  bool backward = false;
};
template <Isa isa, class T>
void rope(const RopeTokens<T>& op);

}  // namespace trireme::simd
