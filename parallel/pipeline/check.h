#pragma once
#include <string>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Plays all ranks of a schedule against each other before any of them starts. Empty if
//  * every stage is on one rank and takes every micro-batch forward and backward once,
//    the backward whole or first its input half, then its weight half;
//  * every stage does each of these in order of the micro-batches, so that gradients
//    are summed in one order whatever the schedule;
//  * from each rank to each other, activations are sent in the order in which they
//    are received, and so are gradients;
//  * nobody waits for ever;
// otherwise the first thing that is wrong, in words.
std::string complaint(const Schedule& schedule);

}  // namespace trireme
