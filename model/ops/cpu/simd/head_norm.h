#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// RMSNorm of the query heads and key heads in rows of qkv.
template <class T>
struct HeadNormTokens {
  T* y = nullptr;
  Sum<T>* inverse = nullptr;  // [tokens, heads + kv_heads]
  const T *x = nullptr, *query_gain = nullptr, *key_gain = nullptr;
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, width = 0;
  double epsilon = 0;
};
template <Isa isa, class T>
void head_norm(const HeadNormTokens<T>& op);

template <class T>
struct HeadNormBackwardTokens {
  T* dqkv = nullptr;                                   // in place
  Sum<T>*dquery_gain = nullptr, *dkey_gain = nullptr;  // [width], replaced by sums
  const T *x = nullptr, *query_gain = nullptr, *key_gain = nullptr;
  const Sum<T>* inverse = nullptr;
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, width = 0;
};
template <Isa isa, class T>
void head_norm_backward(const HeadNormBackwardTokens<T>& op);

}  // namespace trireme::simd
