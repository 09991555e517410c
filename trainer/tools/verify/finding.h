#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/verify/cause.h"
#include "trainer/tools/verify/comparison.h"

namespace trireme::verify {

// A number of the subject and its reference.
struct ValuePair {
  double value = 0, expected = 0;
  double relative() const;
};

// Results of a step.
struct StepFinding {
  std::int64_t step = 0;  // 0: initial weights
  ValuePair loss, grad_norm;
  std::int64_t expert_rounds = 1;  // of the subject's exchange of experts' rows
  // The largest difference over all parameters and its tensor: relative to the largest value of the
  // weight if of_scale, otherwise absolute.
  struct Largest {
    double share = 0;
    std::string tensor;
  };
  static Largest of(const std::vector<TensorResult>& results, const Tensors& tensors,
                    bool of_scale);
  Largest gradient, weight;
  Largest ratio;  // |ratio - 1| of a gradient to the reference, fitted per weight
};

// The first difference.
struct Difference {
  std::int64_t step = 0;
  std::string what;    // "loss", "grad_norm", "gradient", "weight", ...
  std::string tensor;  // first in model order; empty for a scalar
  std::string origin;  // of gradients, the first in backward order
  Shape shape;
  std::vector<std::int64_t> at;  // first differing element; empty: the fitted ratio differs
  int rank = 0;
  ValuePair pair;
  double share = 0, allowed = 0;         // relative
  std::int64_t wrong = 0, elements = 0;  // of all copies
  std::vector<std::string> also;
  Cause cause;
};

struct Finding {
  std::size_t parameters = 0;
  std::int64_t elements = 0;
  Tolerances tolerances;
  std::vector<StepFinding> steps;
  std::optional<Difference> difference;  // the first
  std::vector<std::string> not_proven;   // code paths that the steps did not exercise
};

// Report as text and as JSON.
std::string text_of(const Finding& finding);
std::string json_of(const Finding& finding);

// Code paths that a run of this config may use but the compared steps did not, each with the config
// key that exercises it.
std::vector<std::string> not_proven(const RunConfig& config, const std::vector<StepFinding>& steps);

}  // namespace trireme::verify
