#pragma once
#include <array>

namespace trireme {

// A dense model of N parameters trained on D tokens.
struct TrainingBudget {
  double parameters = 0, tokens = 0;
  // 6 N D of training and 2 N for each token of inference.
  double flops(double inference_tokens) const;
};

// Scaling law of the final loss in nats per token: E + A / N^alpha + B / D^beta for N parameters
// and D tokens. Holds for the data and tokenizer of its authors only.
struct LossFit {
  const char* source;
  double irreducible, a, b, alpha, beta;
  double loss(double parameters, double tokens) const;
  // Tokens per parameter of the least loss for the compute 6 N D.
  double optimal_ratio(double parameters, double tokens) const;
  // The model of this loss, which must be above the irreducible, that takes the least FLOPs in
  // training and inference (Sardana et al. 2023, "Beyond Chinchilla-Optimal", equation 3).
  TrainingBudget cheapest(double loss, double inference_tokens) const;
};

// Hoffmann et al. 2022 (approach 3), with the digits of the paper's TeX source, which its text
// rounds; and the refit of the same runs by Besiroglu et al. 2024, which agrees with the paper's
// other approaches.
inline constexpr std::array<LossFit, 2> kLossFits{{
    {"Hoffmann et al. 2022 (approach 3)", 1.6934, 406.4, 410.7, 0.3392, 0.2849},
    {"Besiroglu et al. 2024", 1.8172, 482.01, 2085.43, 0.3478, 0.3658},
}};

// Kaplan et al. 2020, equation 1.5 with the constants of its table 2, for N parameters without
// embeddings.
double kaplan_loss(double parameters, double tokens);
inline constexpr const char* kKaplan = "Kaplan et al. 2020";

// Compute-optimal tokens per parameter (Hoffmann et al. 2022, approaches 1 and 2).
inline constexpr double kTokensPerParameter = 20;

}  // namespace trireme
