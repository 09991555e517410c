#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/verify/tensors.h"
#include "trainer/tools/verify/tolerances.h"

namespace trireme::verify {

// How one parameter of the subject, in all its copies, stands to the reference's.
struct TensorResult {
  double scale = 0;       // the reference's largest, of all parameters of the weight
  double squares = 0;     // the sum of the reference's
  double difference = 0;  // the largest
  double excess = 0;      // the largest multiple of what is allowed; above 1 it differs
  std::int64_t elements = 0, wrong = 0;  // of all copies; those that differ by more
  // The first element that does, and on which rank.
  std::int64_t index = -1;
  int rank = -1;
  double value = 0, expected = 0;

  // Least squares over all copies of the parameters of its weight: the factor by which the
  // reference's are these. Roundings, which part elements, cancel in it.
  double cross = 0, expected_squares = 0;
  double ratio() const { return expected_squares > 0 ? cross / expected_squares : 1; }
  bool scaled = false;  // it is further from 1 than is allowed

  bool differs() const { return wrong > 0 || scaled; }
};

// Compares what two subjects hold, element by element in pieces of bounded size: each is made
// whole from the rank of the reference that it stands on, and looked at by every rank of the
// subject that has a copy.
class Comparison {
 public:
  // `ranks` are those of both. All outlive this.
  Comparison(const Subject& subject, const Subject& reference, Communicator& ranks,
             const Tensors& tensors)
      : subject_(subject), reference_(reference), ranks_(ranks), tensors_(tensors) {}

  // What is compared: a moment by its name, weights after so many updates at a learning rate.
  struct Of {
    Quantity quantity;
    std::string moment = {};
    double learning_rate = 0;
    std::int64_t updates = 0;
  };
  // By tensor; the same on all ranks. Collective.
  std::vector<TensorResult> compare(const Of& of, const Tolerances& tolerances);

  // From here on the reference has the subject's gradients: what optimizers make of the same ones
  // is the same but for its own roundings, however coarse the gradients' dtype. Collective.
  void hand_over_gradients();

 private:
  void scan(const Of& of, std::vector<TensorResult>& results) const;
  void find_scaled(double most, std::vector<TensorResult>& results) const;
  void share_scales(std::vector<TensorResult>& results);
  void join(std::vector<TensorResult>& results);

  const Subject& subject_;
  const Subject& reference_;
  Communicator& ranks_;
  const Tensors& tensors_;
};

bool any_differs(const std::vector<TensorResult>& results);

// Adds what stands here of elements [first, first + into.size()) of all to `into`.
void add_standing(const Subject& subject, const std::vector<Held>& held, const Tensors& tensors,
                  std::int64_t first, std::span<double> into);

}  // namespace trireme::verify
