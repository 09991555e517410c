#include "trainer/verify/tolerances.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::verify {
namespace {

const std::map<std::string, Tolerances>& by_dtype() {
  static const std::map<std::string, Tolerances> kAll{
      {"float64", {.loss = 1e-6, .grad_norm = 1e-5, .gradient = 1e-5}},
      {"float32", {.loss = 1e-6, .grad_norm = 1e-5, .gradient = 1e-5, .rounding = 0}},
      {"float16",
       {.loss = 3e-3,
        .grad_norm = 2e-2,
        .gradient = 2e-2,
        .rounding = 0x1p-11,
        .underflow = 0x1p-25}},
      {"bfloat16", {.loss = 1e-2, .grad_norm = 5e-2, .gradient = 5e-2, .rounding = 0x1p-8}},
      {"float8", {.loss = 2e-2, .grad_norm = 1e-1, .gradient = 1.5e-1, .rounding = 0x1p-8}}};
  return kAll;
}

// In each of these every sum has the same terms in the same order.
bool same_to_the_bit(const RunConfig& a, const RunConfig& b) {
  const bool same_split = a.parallelism.tensor == b.parallelism.tensor &&
                          a.parallelism.sequence == b.parallelism.sequence;
  const bool no_data_sums = data_ranks(a.parallelism) == 1 && data_ranks(b.parallelism) == 1;
  return a.training.dtype == b.training.dtype && same_split &&
         (no_data_sums || (a.job.reproducible && b.job.reproducible)) &&
         a.job.reproducible == b.job.reproducible;
}

}  // namespace

Tolerances Tolerances::in_step(std::int64_t step) const {
  constexpr double kOfLoss = 2, kOfGradients = 100;  // a step, in float32
  constexpr double kMost = 0.2;                      // of half precisions, all of whose digits move
  if (step <= 1 || exact) return *this;
  const auto steps = static_cast<double>(step - 1);
  const auto grown = [&](double tolerance, double factor) {
    return std::max(tolerance, std::min(tolerance * factor * steps, kMost));
  };
  Tolerances later = *this;
  later.is_later = true;
  later.loss = grown(loss, kOfLoss);
  later.grad_norm = grown(grad_norm, kOfGradients);
  later.gradient = grown(gradient, kOfGradients);
  return later;
}

std::int64_t Tolerances::doubtful(std::int64_t elements) const {
  constexpr std::int64_t kLeast = 2, kOneIn = 200;
  return is_later ? std::max(kLeast, elements / kOneIn) : 0;
}

double Tolerances::weight(double value, double gradient_here, double gradient_scale,
                          double largest_update) const {
  if (exact) return 0;
  constexpr double kMost = 2.01, kOfBoth = 4;  // updates up and down; of both moments, twice
  const double share = kOfBoth * gradient * gradient_scale /
                       std::max(std::fabs(gradient_here), 1e-30 + gradient * gradient_scale);
  constexpr double kFloat32 = 0x1p-23;
  return largest_update * std::min(share, kMost) + kFloat32 * std::fabs(value);
}

Tolerances tolerances(const RunConfig& subject, const RunConfig& reference) {
  const Tolerances& one = by_dtype().at(subject.training.dtype);
  const Tolerances& other = by_dtype().at(reference.training.dtype);
  Tolerances coarser = one.gradient >= other.gradient ? one : other;
  coarser.rounding = one.rounding;
  coarser.underflow = one.underflow;
  coarser.exact = same_to_the_bit(subject, reference);
  if (coarser.exact) coarser.loss = coarser.grad_norm = coarser.gradient = 0;
  return coarser;
}

}  // namespace trireme::verify
