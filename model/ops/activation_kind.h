#pragma once
#include <cstdint>

namespace trireme {

enum class Activation : std::uint8_t {
  kGelu,      // x Phi(x), Phi by erf (Hendrycks and Gimpel 2016)
  kGeluTanh,  // its tanh approximation (Hugging Face's gelu_new and gelu_pytorch_tanh)
  kRelu2,     // max(x, 0)^2 (So et al. 2021, Primer)
  kSilu       // x sigmoid(x)
};

}  // namespace trireme
