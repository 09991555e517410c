#pragma once
#include <cstdint>

namespace trireme {

// What the factors of a linear layer's three products are rounded to. In float8 each factor gets a
// scale of its own from what it holds: activations and weights as E4M3, gradients as E5M2. What a
// holder of a shared weight has is a tensor of its own, and so is every micro-batch.
enum class Factors : std::uint8_t { kAsStored, kFloat8 };

}  // namespace trireme
