#pragma once
#include <string>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Verifies a schedule before any rank starts, by executing all lists symbolically. Returns an empty
// string if
//   * every stage is on one rank and runs forward and backward of every micro-batch once,
//     the backward whole, or its input half and then its weight half;
//   * every stage runs each of these in the order of the micro-batches, so that the order of
//     gradient sums does not depend on the schedule;
//   * between each pair of ranks, activations are sent in the order in which they are
//     received, and so are gradients;
//   * no rank deadlocks;
// otherwise a description of the first violation.
std::string complaint(const Schedule& schedule);

}  // namespace trireme
