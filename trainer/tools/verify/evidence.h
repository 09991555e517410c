#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/verify/tensors.h"

namespace trireme::verify {

// Where a rank of the subject stands in its layout.
struct Place {
  int rank = 0;
  int pipeline = 0, data = 0, tensor = 0;
};

// How the subject's ranks share the work.
struct Sharing {
  std::int64_t pipeline = 1, data = 1, tensor = 1;
  std::int64_t micro_batches = 1;            // of a step, over all data ranks
  std::vector<std::int64_t> data_rank_of{};  // of each of them
};

// What the subject's ranks and the reference hold of some elements of one parameter, spread
// evenly over it: all rows, or some, by all columns, or some.
struct Evidence {
  std::string tensor;
  Quantity quantity = Quantity::kGradient;
  Shape shape;
  std::int64_t rows = 0, columns = 0;  // of the sample; every row of the parameter if all_rows
  bool all_rows = false;
  std::int64_t part_rows = 0;  // Tensors::Entry's
  double tolerance = 0;        // a difference within it is none
  std::vector<double> expected;
  struct Holder {
    Place place;
    // Not a number where the rank has nothing: what it owns, and what else lies in its place.
    std::vector<double> owned, left_over;
    bool stands = false;
  };
  std::vector<Holder> holders;
  // The reference's gradients of each micro-batch alone; empty: not known.
  std::vector<std::vector<double>> by_micro_batch;
  std::vector<double> before;   // of a weight, before the step; empty: not known
  double decay = 0;             // what a step takes of it: learning rate by weight decay
  double update_tolerance = 0;  // of the weight after the step
  Sharing sharing;
};

}  // namespace trireme::verify
