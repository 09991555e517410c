#pragma once
#include <cstdint>

namespace trireme {

// Precision of the operands of a linear layer's three matrix products. In float8 each operand has
// its own per-tensor scale from its current values: activations and weights as E4M3, gradients as
// E5M2. Every shard of a weight and every micro-batch has its own scale.
enum class MatmulPrecision : std::uint8_t { kNative, kFloat8 };

}  // namespace trireme
