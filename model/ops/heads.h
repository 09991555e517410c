#pragma once
#include <cstdint>

#include "model/tensor/tensor.h"

namespace trireme::ops {

// Layout of a [tokens, (heads + 2 kv_heads) width] row of queries, keys and values: all query
// heads, then all key heads, then all value heads. Query head i reads key-value head i / (heads /
// kv_heads).
struct Heads {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t width = 1;  // of one head
  std::int64_t query() const { return heads * width; }
  std::int64_t qkv() const { return (heads + 2 * kv_heads) * width; }
};

// What norms and rotary positions change of a qkv tensor, as many elements; its values pass
// through.
inline Tensor queries_and_keys(const Tensor& qkv, const Heads& heads) {
  return qkv.slice(0, qkv.rows() * (heads.heads + heads.kv_heads) * heads.width);
}

}  // namespace trireme::ops
