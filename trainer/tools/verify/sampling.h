#pragma once
#include "trainer/tools/verify/evidence.h"

namespace trireme::verify {

// Brings together, for every rank, what the two subjects hold of a sample of one parameter.
// All calls are collective over the ranks of both.
class Sampling {
 public:
  // All outlive this.
  Sampling(const Subject& subject, const Subject& reference, Communicator& ranks,
           const Tensors& tensors)
      : subject_(subject), reference_(reference), ranks_(ranks), tensors_(tensors) {}

  // Without by_micro_batch and before.
  Evidence evidence(std::size_t tensor, Quantity quantity, double tolerance,
                    const std::string& moment = {});
  // How the subject's ranks share a step; not collective.
  Sharing sharing() const;
  // What the reference has now of the same elements.
  std::vector<double> expected(std::size_t tensor, Quantity quantity,
                               const std::string& moment = {}) const;
  // What they were before the first step.
  std::vector<double> initial(std::size_t tensor) const;

 private:
  std::vector<std::int64_t> elements(std::size_t tensor) const;
  std::vector<double> values(const Subject& of, const std::vector<Held>& held, std::size_t tensor,
                             double absent, bool standing_only) const;

  const Subject& subject_;
  const Subject& reference_;
  Communicator& ranks_;
  const Tensors& tensors_;
};

}  // namespace trireme::verify
