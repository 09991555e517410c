#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/verify/tensors.h"
#include "trainer/verify/tolerances.h"

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

  std::int64_t doubtful = 0;  // so many may be wrong

  bool differs() const { return wrong > doubtful; }
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

  // By tensor; the same on all ranks. Collective. A weight may be as far off as the gradients of
  // its last step allow (Tolerances::weight).
  std::vector<TensorResult> compare(Quantity quantity, const Tolerances& tolerances,
                                    double largest_update);

 private:
  void scan(Quantity quantity, std::vector<TensorResult>& results) const;
  void share_scales(std::vector<TensorResult>& results);
  void join(std::vector<TensorResult>& results);

  const Subject& subject_;
  const Subject& reference_;
  Communicator& ranks_;
  const Tensors& tensors_;
};

// Adds what stands here of elements [first, first + into.size()) of all to `into`.
void add_standing(const Subject& subject, const std::vector<Held>& held, const Tensors& tensors,
                  std::int64_t first, std::span<double> into);

}  // namespace trireme::verify
