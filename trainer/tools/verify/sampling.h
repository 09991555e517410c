#pragma once
#include "trainer/tools/verify/evidence.h"

namespace trireme::verify {

// Gathers a grid of elements of one parameter from both subjects to every rank. All calls are
// collective over the ranks of both.
class Sampling {
 public:
  // All arguments must outlive this.
  Sampling(const Subject& subject, const Subject& reference, Communicator& ranks,
           const Tensors& tensors)
      : subject_(subject), reference_(reference), ranks_(ranks), tensors_(tensors) {}

  // Leaves by_micro_batch and before empty.
  Evidence evidence(std::size_t tensor, Quantity quantity, double tolerance,
                    const std::string& moment = {});
  // Not collective.
  LayoutSizes layout_sizes() const;
  // Current values of the reference on the grid.
  std::vector<double> expected(std::size_t tensor, Quantity quantity,
                               const std::string& moment = {}) const;
  // Initial weights on the grid.
  std::vector<double> initial(std::size_t tensor) const;

 private:
  std::vector<std::int64_t> elements(std::size_t tensor) const;
  std::vector<double> values(const Subject& of, const std::vector<LocalRange>& held,
                             std::size_t tensor, double absent, bool primary_only) const;

  const Subject& subject_;
  const Subject& reference_;
  Communicator& ranks_;
  const Tensors& tensors_;
};

}  // namespace trireme::verify
