#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/tools/verify/finding.h"
#include "trainer/tools/verify/mistake.h"
#include "trainer/tools/verify/samples.h"
#include "trainer/tools/verify/sampling.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {

// Runs some steps of two layouts side by side, on the same samples and from the same weights, and
// compares all that they compute: losses, norms, gradients and weights. Ends with the first
// difference, of which it looks for the cause.
class Verification {
 public:
  // The configs differ in their layouts, and in what does not change the task; the world has the
  // larger's ranks. All outlive this. Collective.
  struct Of {
    const RunConfig& subject;
    const RunConfig& reference;
    bool synthetic = false;  // random tokens
    Mistake* mistake = nullptr;
  };
  Verification(World& world, Device device, const Of& of);

  // The same on all ranks. Collective.
  Finding run(std::int64_t steps);

 private:
  void share_gemm_choices();
  void require_mistake() const;
  double gradients(const Subject& subject, std::int64_t step, bool mistaken);
  double update(const Subject& subject, std::int64_t step, bool mistaken) const;
  Pair both(double of_subject, double of_reference) const;
  std::vector<double> of_all_ranks(double own) const;

  std::optional<Difference> compare_samples(std::int64_t step);
  std::optional<Difference> compare_moments(std::int64_t step);
  std::optional<Difference> compare_weights(std::int64_t step, StepFinding& finding);
  std::optional<Difference> compare_gradients(std::int64_t step, StepFinding& finding);
  std::optional<Difference> compare_norms(std::int64_t step, StepFinding& finding, double own);
  Difference describe(const std::vector<TensorResult>& results, Quantity quantity,
                      std::int64_t step) const;
  Cause cause_of_samples(std::int64_t step, Difference& difference) const;
  Cause cause_of_weights(const std::vector<TensorResult>& results, Quantity quantity,
                         std::int64_t step, std::size_t first);
  Cause cause_of_gradients(const std::vector<TensorResult>& results, std::int64_t step,
                           const Pair& loss, Difference& difference);
  Cause cause_of_norm(const Pair& norm, const std::vector<double>& norms) const;
  std::optional<double> ratio_of_all(const std::vector<TensorResult>& results) const;
  std::vector<std::vector<double>> by_micro_batch(std::size_t tensor, std::int64_t step);
  std::vector<double> held_by_several() const;
  std::vector<int> stages() const;
  std::string on_stage(const std::vector<TensorResult>& results) const;
  std::string part_of_forward(std::int64_t step);

  World& world_;
  const Of of_;
  std::unique_ptr<Communicator> ranks_;
  Samples samples_;
  Subject subject_;
  Subject reference_;
  Tensors tensors_;
  Comparison comparison_;
  Sampling sampling_;
  Tolerances tolerances_, roundings_;
  Filled filled_;                        // of the subject, in the step
  std::vector<TensorResult> gradients_;  // of the step
};

}  // namespace trireme::verify
