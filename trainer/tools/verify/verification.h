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

// Trains two layouts for some steps on the same samples from the same weights and compares losses,
// gradients, grad_norm, optimizer state and weights. Stops at the first difference and determines
// its likely cause.
class Verification {
 public:
  // The configs differ only in the layout and in keys that do not change the task. The world has
  // the ranks of the larger layout. All arguments must outlive this. Collective.
  struct Inputs {
    const RunConfig& subject;
    const RunConfig& reference;
    bool synthetic = false;  // random tokens
    Mistake* mistake = nullptr;
  };
  Verification(World& world, Device device, const Inputs& of);

  // Returns the same on all ranks. Collective.
  Finding run(std::int64_t steps);

 private:
  void share_gemm_choices();
  void require_mistake() const;
  // Without `masked` every sequence is one document.
  double gradients(const Subject& subject, std::int64_t step, bool mistaken, bool masked = true);
  Engine::StepResult update(const Subject& subject, std::int64_t step, bool mistaken) const;
  ValuePair both(double of_subject, double of_reference) const;
  std::vector<double> of_all_ranks(double own) const;

  std::optional<Difference> compare_samples(std::int64_t step);
  std::optional<Difference> compare_moments(std::int64_t step);
  std::optional<Difference> compare_weights(std::int64_t step, StepFinding& finding);
  std::optional<Difference> compare_gradients(std::int64_t step, StepFinding& finding);
  std::optional<Difference> compare_norms(std::int64_t step, StepFinding& finding, double own);
  Difference describe(const std::vector<TensorResult>& results, Quantity quantity,
                      std::int64_t step) const;
  Cause cause_of_samples(std::int64_t step, bool differs, Difference& difference) const;
  Cause cause_of_weights(const std::vector<TensorResult>& results, Quantity quantity,
                         std::int64_t step, std::size_t first);
  Cause cause_of_gradients(const std::vector<TensorResult>& results, std::int64_t step,
                           const ValuePair& loss, Difference& difference);
  Cause cause_of_norm(const ValuePair& norm, const std::vector<double>& norms) const;
  std::optional<double> ratio_of_all(const std::vector<TensorResult>& results) const;
  std::vector<std::vector<double>> by_micro_batch(std::size_t tensor, std::int64_t step);
  std::vector<double> of_router_losses(std::size_t tensor, std::int64_t step);
  std::vector<double> held_by_several() const;
  std::vector<int> stages() const;
  std::string on_stage(const std::vector<TensorResult>& results) const;
  bool forward_differs(const std::vector<std::string>& silent, std::int64_t step,
                       bool masked = true);
  std::optional<Cause> cause_of_mask(std::int64_t step, bool loss_differs);
  std::vector<double> token_losses(const Subject& subject) const;
  std::string on_context_ranks(std::int64_t step) const;
  std::string part_of_forward(std::int64_t step);

  World& world_;
  const Inputs of_;
  std::unique_ptr<Communicator> ranks_;
  Samples samples_;
  Subject subject_;
  Subject reference_;
  Tensors tensors_;
  Comparison comparison_;
  Sampling sampling_;
  Tolerances tolerances_, roundings_;
  Filled filled_;                        // batch of the subject in the current step
  std::vector<TensorResult> gradients_;  // of the current step
};

}  // namespace trireme::verify
