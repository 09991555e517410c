#pragma once
#include "trainer/tools/plan/workload.h"

namespace trireme {

// What ranks that see other data send each other; seconds on the link, bytes sent by a rank.
struct DataMessages {
  double seconds = 0, bytes = 0;
};

// A layer's: summing the gradients of `parameters` elements, so that each rank has its sums.
// Context ranks see other tokens of the same sequences and take part.
DataMessages gradient_messages(const Workload& work, const Network& network, double parameters);

// A layer's: gathering `parameters` weights that data ranks have divided.
DataMessages weight_messages(const Workload& work, const Network& network, double parameters);

}  // namespace trireme
