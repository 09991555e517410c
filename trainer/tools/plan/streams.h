#pragma once

namespace trireme {

// An operation that only goes through memory: elements read or written for each of a tensor's.
// Calibration measures them by these names and counts their bytes as the cost model does.
struct StreamKind {
  const char* name;
  double passes;
  double unfused;  // where every step of the formula is a kernel
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
// Of float32: reads masters, moments and gradients, writes all but the gradients and the weights,
// reads the gradients for their norm and writes zeros.
inline constexpr StreamKind kUpdate{"update", 10, 10};
}  // namespace streams

}  // namespace trireme
