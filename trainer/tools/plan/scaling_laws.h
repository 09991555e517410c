#pragma once
#include <array>

namespace trireme {

// Scaling law of the final loss in nats per token: E + A / N^alpha + B / D^beta for N parameters
// and D tokens. Holds for the data and tokenizer of its authors only.
struct LossFit {
  const char* source;
  double irreducible, a, b, alpha, beta;
  double loss(double parameters, double tokens) const;
};

// Hoffmann et al. 2022 (approach 3), and the refit of the same runs by Besiroglu et al. 2024, which
// agrees with the paper's other approaches.
inline constexpr std::array<LossFit, 2> kLossFits{{
    {"Hoffmann et al. 2022", 1.69, 406.4, 410.7, 0.34, 0.28},
    {"Besiroglu et al. 2024", 1.8172, 482.01, 2085.43, 0.3478, 0.3658},
}};

// Compute-optimal tokens per parameter (Hoffmann et al. 2022, all three approaches).
inline constexpr double kTokensPerParameter = 20;

}  // namespace trireme
