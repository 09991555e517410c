#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/verify/tensors.h"
#include "trainer/tools/verify/tolerances.h"

namespace trireme::verify {

// Comparison of one parameter of the subject, over all copies, with the reference.
struct TensorResult {
  double scale = 0;       // largest absolute value of the reference in the weight
  double squares = 0;     // sum of squares of the reference
  double difference = 0;  // largest absolute difference
  double excess = 0;      // largest difference relative to the tolerance; above 1 it differs
  std::int64_t elements = 0, wrong = 0;  // of all copies; those above the tolerance
  // The first element above the tolerance, and its rank.
  std::int64_t index = -1;
  int rank = -1;
  double value = 0, expected = 0;

  // Least-squares ratio of the weight to the reference over all copies. Rounding errors of single
  // elements cancel in it.
  double cross = 0, expected_squares = 0;
  double ratio() const { return expected_squares > 0 ? cross / expected_squares : 1; }
  bool scaled = false;  // the ratio is outside the tolerance

  bool differs() const { return wrong > 0 || scaled; }
};

// Compares the parameters of two subjects element by element, in chunks of bounded size. A chunk is
// assembled from the reference's primary replicas and compared by every rank of the subject that
// has a copy.
class Comparison {
 public:
  // `ranks` contains the ranks of both subjects. All arguments must outlive this.
  Comparison(const Subject& subject, const Subject& reference, Communicator& ranks,
             const Tensors& tensors)
      : subject_(subject), reference_(reference), ranks_(ranks), tensors_(tensors) {}

  // The quantity to compare: a moment by name, or weights after `updates` at `learning_rate`.
  struct Target {
    Quantity quantity;
    std::string moment = {};
    double learning_rate = 0;
    std::int64_t updates = 0;
  };
  // Results by tensor, equal on all ranks. Collective.
  std::vector<TensorResult> compare(const Target& of, const Tolerances& tolerances);

  // Copies the subject's gradients to the reference, so that the optimizers differ only by their
  // own rounding errors, whatever the dtype of the gradients. Collective.
  void hand_over_gradients();

 private:
  void scan(const Target& of, std::vector<TensorResult>& results) const;
  void find_scaled(double most, std::vector<TensorResult>& results) const;
  void share_scales(std::vector<TensorResult>& results);
  void join(std::vector<TensorResult>& results);

  const Subject& subject_;
  const Subject& reference_;
  Communicator& ranks_;
  const Tensors& tensors_;
};

bool any_differs(const std::vector<TensorResult>& results);

// Adds this rank's primary elements [first, first + into.size()) of all parameters to `into`.
void add_primary(const Subject& subject, const std::vector<LocalRange>& held,
                 const Tensors& tensors, std::int64_t first, std::span<double> into);

}  // namespace trireme::verify
