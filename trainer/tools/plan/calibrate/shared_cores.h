#pragma once
#include <cstddef>
#include <vector>

#include "parallel/comm/world.h"
#include "trainer/tools/plan/device/links.h"

namespace trireme {

// Measures messages of ranks that take turns on the cores of their node, and how long they wait for
// each other, in groups of 2, 4, ... and of all ranks of the node. All groups work at the same
// time, and compute between messages as in a step. `node`: the ranks of this rank's node, of which
// every node has equally many; `bytes`: of the messages. Collective over the world.
std::vector<SharedCores> measure_shared_cores(World& world, const std::vector<int>& node,
                                              std::size_t bytes);

// The mean of the middle half.
double middle_mean(std::vector<double> values);

}  // namespace trireme
