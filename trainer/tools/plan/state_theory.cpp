#include "trainer/tools/plan/state_theory.h"

#include <algorithm>

#include "model/tensor/dtype.h"
#include "trainer/engine/engine_spec.h"

namespace trireme {

double StateTheory::per_rank(int zero, int ranks) const {
  const double n = ranks;
  return weights / (zero >= 3 ? n : 1) + gradients / (zero >= 2 ? n : 1) +
         optimizer / (zero >= 1 ? n : 1);
}

double StateTheory::per_expert_rank(int zero, int ranks, int expert) const {
  const double whole = expert, shared = std::max(ranks, expert);
  return weights / (zero >= 3 ? shared : whole) + gradients / (zero >= 2 ? shared : whole) +
         optimizer / (zero >= 1 ? shared : whole);
}

double StateTheory::bytes(const ModelConfig& model, const ParallelismConfig& layout) const {
  const int zero = static_cast<int>(layout.zero),
            ranks = static_cast<int>(layout.data_shard * layout.context);
  const auto experts = static_cast<double>(expert_parameter_count(model));
  const double dense = static_cast<double>(parameter_count(model)) - experts;
  const double all = dense * per_rank(zero, ranks) +
                     experts * per_expert_rank(zero, ranks, static_cast<int>(layout.expert));
  return all / static_cast<double>(layout.tensor * layout.pipeline);
}

StateTheory state_theory(const RunConfig& config, double stored) {
  const DType compute = compute_dtype(config.training.dtype);
  const auto sum = static_cast<double>(size_of(accumulator_of(compute)));
  const bool has_masters = compute != accumulator_of(compute);
  return {static_cast<double>(size_of(compute)), sum, stored - (has_masters ? 0 : sum)};
}

}  // namespace trireme
