#include "trainer/tools/plan/state_theory.h"

#include "model/tensor/dtype.h"
#include "trainer/engine/engine_spec.h"

namespace trireme {

double StateTheory::per_rank(int zero, int ranks) const {
  const double n = ranks;
  return weights / (zero >= 3 ? n : 1) + gradients / (zero >= 2 ? n : 1) +
         optimizer / (zero >= 1 ? n : 1);
}

StateTheory state_theory(const RunConfig& config, double stored) {
  const DType compute = compute_dtype(config.training.dtype);
  const auto sum = static_cast<double>(size_of(accumulator_of(compute)));
  const bool has_masters = compute != accumulator_of(compute);
  return {static_cast<double>(size_of(compute)), sum, stored - (has_masters ? 0 : sum)};
}

}  // namespace trireme
