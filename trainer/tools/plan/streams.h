#pragma once

namespace trireme {

// A memory-bound operation, with the memory accesses per element of its tensor. Calibration
// measures these operations and counts their bytes as the cost model does.
struct StreamKind {
  const char* name;
  double passes;
  double unfused;  // accesses if every step of the formula is a kernel
};

namespace streams {
inline constexpr StreamKind kRmsNorm{"rms_norm", 2, 6};
inline constexpr StreamKind kRmsNormBackward{"rms_norm_backward", 4, 10};
inline constexpr StreamKind kLayerNorm{"layer_norm", 2, 6};
inline constexpr StreamKind kLayerNormBackward{"layer_norm_backward", 4, 10};
inline constexpr StreamKind kRope{"rope", 2, 8};
inline constexpr StreamKind kGelu{"gelu", 2, 3};
inline constexpr StreamKind kGeluBackward{"gelu_backward", 3, 5};
inline constexpr StreamKind kSwiGlu{"swiglu", 3, 5};
inline constexpr StreamKind kSwiGluBackward{"swiglu_backward", 5, 8};
inline constexpr StreamKind kAdd{"add", 3, 3};
inline constexpr StreamKind kEmbedding{"embedding", 2, 4};
inline constexpr StreamKind kEmbeddingBackward{"embedding_backward", 3, 4};
inline constexpr StreamKind kLoss{"loss", 4, 4};
// Counted in float32 elements: reads master weights, moments and gradients, writes master weights,
// moments and weights, reads the gradients for the norm and zeroes them.
inline constexpr StreamKind kUpdate{"update", 10, 10};
}  // namespace streams

}  // namespace trireme
