#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/verify/cause.h"
#include "trainer/tools/verify/comparison.h"

namespace trireme::verify {

// Two numbers of a step, the subject's and the reference's.
struct Pair {
  double value = 0, expected = 0;
  double relative() const;
};

// What a step came to.
struct StepFinding {
  std::int64_t step = 0;  // 0: before the first
  Pair loss, grad_norm;
  // The largest difference of each quantity over all parameters, as a share of the largest
  // gradient of its weight, or of what is allowed, and where.
  struct Largest {
    double share = 0;
    std::string tensor;
  };
  static Largest of(const std::vector<TensorResult>& results, const Tensors& tensors,
                    bool of_scale);
  Largest gradient, weight;
  Largest ratio;  // of a weight's whole gradient to the reference's, less 1
};

// Where the two part.
struct Difference {
  std::int64_t step = 0;
  std::string what;    // "loss", "grad_norm", "gradient", "weight", ...
  std::string tensor;  // the first in the model's order; empty: none, the number itself
  std::string origin;  // of gradients, the first in the order of the backward
  Shape shape;
  std::vector<std::int64_t> at;  // the first element that differs; empty: all of it together
  int rank = 0;
  Pair pair;
  double share = 0, allowed = 0;         // of the largest gradient of the weight, or of the number
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
  std::vector<std::string> not_proven;   // that the steps did not try
};

// For people, and for programs as JSON.
std::string text_of(const Finding& finding);
std::string json_of(const Finding& finding);

}  // namespace trireme::verify
