#pragma once
#include "model/layers/sequence_ranks.h"
#include "model/ops/elementwise.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Context parallelism's SequenceRanks.
class ContextRanks final : public SequenceRanks {
 public:
  // `ranks` outlives it.
  explicit ContextRanks(Communicator& ranks) : ranks_(ranks) {}

  bool are_several() const override { return true; }
  void average(Stream& stream, Tensor x) override {
    ranks_.all_reduce(stream, x, Reduce::kSum);
    ops::scale(stream, x, x, 1.0 / ranks_.size());
  }

 private:
  Communicator& ranks_;
};

}  // namespace trireme
