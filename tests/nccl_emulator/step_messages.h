#pragma once
#include "tests/nccl_emulator/emulated_job.h"

namespace trireme::test {

struct Axes {
  int pipeline = 1, data = 1, tensor = 1;
  int ranks() const { return pipeline * data * tensor; }
};

// What the ranks of a training step send: 1F1B with a receive started ahead, sums over tensor ranks
// and exchanges over expert ranks in every micro-batch, gradient buckets summed behind the last
// one's backward, at the end a norm over all. Expects that every value arrives.
void communicate(EmulatedRank& own, const Axes& axes, int steps);

}  // namespace trireme::test
