#include "trainer/tools/plan/scaling_laws.h"

#include <cmath>

namespace trireme {

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

double kaplan_loss(double parameters, double tokens) {
  constexpr double kAlphaN = 0.076, kAlphaD = 0.103, kParameters = 6.4e13, kTokens = 1.8e13;
  return std::pow(std::pow(kParameters / parameters, kAlphaN / kAlphaD) + kTokens / tokens,
                  kAlphaD);
}

}  // namespace trireme
