#pragma once
#include <optional>
#include <string>
#include <vector>

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

// Explains a gradient that is `ratio` times its expected value, known to a relative precision, by
// sizes of the layout; nullopt if the ratio is 1.
std::optional<Cause> cause_of_ratio(double ratio, const LayoutSizes& layout, double precision);

// Cause if `values` are the expected rows at other positions: permuted heads, or rows shifted by a
// constant offset. nullopt otherwise.
std::optional<Cause> moved_rows(const Evidence& evidence, const std::vector<double>& values);

}  // namespace trireme::verify
