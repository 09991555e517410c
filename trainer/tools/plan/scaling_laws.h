#pragma once
#include <array>

namespace trireme {

// A fit of the last losses of published runs: E + A / N^alpha + B / D^beta, in nats a token, of N
// parameters after D tokens. It speaks of its authors' data and tokenizer, not of others.
struct LossFit {
  const char* source;
  double irreducible, a, b, alpha, beta;
  double loss(double parameters, double tokens) const;
};

// Hoffmann et al. 2022 (approach 3), and Besiroglu et al. 2024, who fitted the same runs again
// because the first constants contradict the paper's other approaches.
inline constexpr std::array<LossFit, 2> kLossFits{{
    {"Hoffmann et al. 2022", 1.69, 406.4, 410.7, 0.34, 0.28},
    {"Besiroglu et al. 2024", 1.8172, 482.01, 2085.43, 0.3478, 0.3658},
}};

// For which a training budget buys the least loss (Hoffmann et al. 2022, all three approaches).
inline constexpr double kTokensPerParameter = 20;

}  // namespace trireme
