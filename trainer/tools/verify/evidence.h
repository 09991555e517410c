#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/verify/tensors.h"

namespace trireme::verify {

// Mesh coordinates of a rank of the subject.
struct RankCoordinates {
  int rank = 0;
  int pipeline = 0, data = 0, tensor = 0, context = 0;
};

// Sizes of the subject's mesh axes and its micro-batches.
struct LayoutSizes {
  std::int64_t pipeline = 1, data = 1, tensor = 1, context = 1;
  std::int64_t expert = 1;                   // data ranks that divide the experts
  std::int64_t micro_batches = 1;            // per step, over all data-parallel ranks
  std::vector<std::int64_t> data_rank_of{};  // by micro-batch
};

// Values of one parameter on the subject's ranks and in the reference, on an evenly spaced grid of
// its elements.
struct Evidence {
  std::string tensor;
  Quantity quantity = Quantity::kGradient;
  Shape shape;
  std::int64_t rows = 0, columns = 0;  // of the grid; it contains every row if all_rows
  bool all_rows = false;
  std::int64_t part_rows = 0;  // see Tensors::Entry
  double tolerance = 0;        // absolute
  std::vector<double> expected;
  struct Holder {
    RankCoordinates coordinates;
    // NaN for elements that the rank does not have: owned ones, and leftovers in its buffer.
    std::vector<double> owned, left_over;
    bool is_primary = false;
  };
  std::vector<Holder> holders;
  // Reference gradients of each micro-batch; empty: unknown.
  std::vector<std::vector<double>> by_micro_batch;
  std::vector<double> of_router_losses = {};  // reference gradient of these alone; empty: unknown
  std::vector<double> before;                 // weights before the step; empty: unknown
  double decay = 0;                           // learning rate times weight decay
  double update_tolerance = 0;                // absolute, of the weight after the step
  LayoutSizes layout;

  // Whether this is a weight of an expert that only some data ranks have.
  bool is_divided_expert() const {
    return layout.expert > 1 && tensor.find(".experts.") != std::string::npos;
  }
};

}  // namespace trireme::verify
