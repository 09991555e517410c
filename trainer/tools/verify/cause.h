#pragma once
#include <optional>
#include <string>

#include "trainer/tools/verify/evidence.h"

namespace trireme::verify {

// What probably went wrong.
struct Cause {
  std::string kind;  // one word for programs: "missing-sum", "counted-twice", ...
  std::string text;  // a sentence for people
};

// What the numbers of one parameter tell; nothing where they fit no pattern. From first
// principles: a sum that is missing leaves its terms on the ranks, one that is made twice leaves a
// constant ratio, a micro-batch that is lost leaves a combination of the others', rows that were
// taken from the wrong place are there, elsewhere.
std::optional<Cause> cause_of_gradient(const Evidence& evidence);
// Of the optimizer's, made of gradients that are right.
std::optional<Cause> cause_of_moment(const Evidence& evidence);
std::optional<Cause> cause_of_weight(const Evidence& evidence);

// `values` as a combination of `terms`: its coefficients, if it is one within the tolerance.
std::optional<std::vector<double>> combination_of(const std::vector<double>& values,
                                                  const std::vector<std::vector<double>>& terms,
                                                  double tolerance);

}  // namespace trireme::verify
