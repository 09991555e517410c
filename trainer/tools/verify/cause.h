#pragma once
#include <optional>
#include <string>

#include "trainer/tools/verify/evidence.h"

namespace trireme::verify {

// Likely cause of a difference.
struct Cause {
  std::string kind;  // identifier, such as "missing-sum"
  std::string text;  // explanation
};

// Cause of a wrong gradient of one parameter; nullopt if it matches no known pattern. Patterns: a
// missing reduction leaves its terms on the ranks; a repeated one leaves a constant ratio; a lost
// micro-batch leaves a combination of the others; rows read at a wrong offset appear elsewhere.
std::optional<Cause> cause_of_gradient(const Evidence& evidence);
// Causes of wrong optimizer state and of wrong weights, given correct gradients.
std::optional<Cause> cause_of_moment(const Evidence& evidence);
std::optional<Cause> cause_of_weight(const Evidence& evidence);

// Coefficients of `values` as a linear combination of `terms`; nullopt if none is within the
// tolerance.
std::optional<std::vector<double>> combination_of(const std::vector<double>& values,
                                                  const std::vector<std::vector<double>>& terms,
                                                  double tolerance);

}  // namespace trireme::verify
