#include "trainer/tools/verify/tolerances.h"

#include <cmath>
#include <map>
#include <string>

#include "parallel/optimizer/registry.h"

namespace trireme::verify {
namespace {

const std::map<std::string, Tolerances>& by_dtype() {
  static const std::map<std::string, Tolerances> kAll{
      {"float64", {.loss = 1e-6, .gradient = 1e-5, .ratio = 1e-5}},
      {"float32", {.loss = 1e-6, .gradient = 1e-5, .ratio = 1e-5}},
      {"float16",
       {.loss = 3e-3, .gradient = 2e-2, .ratio = 3e-3, .rounding = 0x1p-11, .underflow = 0x1p-25}},
      {"bfloat16", {.loss = 1e-2, .gradient = 5e-2, .ratio = 1.5e-2, .rounding = 0x1p-8}},
      {"float8", {.loss = 2e-2, .gradient = 2.5e-1, .ratio = 1e-1, .rounding = 0x1p-8}}};
  return kAll;
}

// Optimizers compute in float32; bfloat16 moments may round in the other direction.
double of_update(const OptimizerOptions& optimizer) {
  constexpr double kHalfMoments = 0x1p-7;
  return optimizer.has_bfloat16_state() ? kHalfMoments : find_optimizer(optimizer.name).rounding;
}

// True if every sum has the same terms in the same order.
bool same_to_the_bit(const RunConfig& a, const RunConfig& b) {
  const bool same_split = a.parallelism.tensor == b.parallelism.tensor &&
                          a.parallelism.sequence == b.parallelism.sequence;
  const auto sums_tokens = [](const ParallelismConfig& p) { return data_ranks(p) * p.context > 1; };
  const bool no_data_sums = !sums_tokens(a.parallelism) && !sums_tokens(b.parallelism);
  return a.training.dtype == b.training.dtype && same_split &&
         (no_data_sums || (a.job.reproducible && b.job.reproducible)) &&
         a.job.reproducible == b.job.reproducible;
}

}  // namespace

double Tolerances::weight(double value, double learning_rate, std::int64_t updates) const {
  if (exact) return 0;
  constexpr double kFloat32 = 0x1p-24;
  const auto times = static_cast<double>(updates);
  return times * (update * learning_rate + kFloat32 * std::fabs(value)) +
         kFloat32 * std::fabs(value);
}

Tolerances roundings(const RunConfig& subject, const RunConfig& reference) {
  const Tolerances& one = by_dtype().at(subject.training.dtype);
  const Tolerances& other = by_dtype().at(reference.training.dtype);
  Tolerances coarser = one.gradient >= other.gradient ? one : other;
  coarser.rounding = one.rounding;
  coarser.underflow = one.underflow;
  if (subject.optimizer.stochastic_rounding) coarser.rounding *= 2;  // rounds in either direction
  coarser.update = of_update(subject.optimizer);
  return coarser;
}

Tolerances tolerances(const RunConfig& subject, const RunConfig& reference) {
  Tolerances all = roundings(subject, reference);
  if (!same_to_the_bit(subject, reference)) return all;
  all.exact = true;
  all.loss = all.gradient = all.ratio = all.update = 0;
  return all;
}

}  // namespace trireme::verify
