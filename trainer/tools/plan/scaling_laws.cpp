#include "trainer/tools/plan/scaling_laws.h"

#include <cmath>

namespace trireme {

double TrainingBudget::flops(double inference_tokens) const {
  return parameters * (6 * tokens + 2 * inference_tokens);
}

double LossFit::loss(double parameters, double tokens) const {
  return irreducible + a / std::pow(parameters, alpha) + b / std::pow(tokens, beta);
}

// With C = 6 N D, N is G (C / 6)^(beta / (alpha + beta)) for G = (alpha A / (beta B))^(1 / (alpha +
// beta)), and D is the rest.
double LossFit::optimal_ratio(double parameters, double tokens) const {
  const double budget = parameters * tokens, sum = alpha + beta;
  const double optimal = std::pow(alpha * a / (beta * b), 1 / sum) * std::pow(budget, beta / sum);
  return budget / optimal / optimal;
}

// Let u be the part of the reducible loss that the parameters have: A / N^alpha = u R, B / D^beta =
// (1 - u) R. The derivative of the FLOPs by log N is then N (6 D (1 - alpha u / (beta (1 - u))) +
// 2 inference_tokens), which changes its sign once.
TrainingBudget LossFit::cheapest(double loss, double inference_tokens) const {
  const double reducible = loss - irreducible;
  const auto tokens = [&](double u) { return std::pow(b / ((1 - u) * reducible), 1 / beta); };
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    const double u = (low + high) / 2;
    const double slope = 3 * tokens(u) * (1 - alpha * u / (beta * (1 - u))) + inference_tokens;
    (slope > 0 ? low : high) = u;
  }
  return {.parameters = std::pow(a / (low * reducible), 1 / alpha), .tokens = tokens(low)};
}

double kaplan_loss(double parameters, double tokens) {
  constexpr double kAlphaN = 0.076, kAlphaD = 0.103, kParameters = 6.4e13, kTokens = 1.8e13;
  return std::pow(std::pow(kParameters / parameters, kAlphaN / kAlphaD) + kTokens / tokens,
                  kAlphaD);
}

}  // namespace trireme
