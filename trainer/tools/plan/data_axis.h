#pragma once
#include "trainer/tools/plan/workload.h"

namespace trireme {

// Communication of a rank over the data-parallel axes: seconds on the link and bytes sent.
struct DataMessages {
  double seconds = 0, bytes = 0;
};

// Reduction of a layer's gradients of `parameters` elements: all-reduce for ZeRO-0, reduce-scatter
// otherwise. Context-parallel ranks are part of the group.
DataMessages gradient_messages(const Workload& work, const Network& network, double parameters);

// All-gather of a layer's `parameters` sharded weights; zero if nothing is gathered.
DataMessages weight_messages(const Workload& work, const Network& network, double parameters);

}  // namespace trireme
