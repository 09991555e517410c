#include "trainer/tools/plan/scaling_laws.h"

#include <cmath>

namespace trireme {

double LossFit::loss(double parameters, double tokens) const {
  return irreducible + a / std::pow(parameters, alpha) + b / std::pow(tokens, beta);
}

}  // namespace trireme
