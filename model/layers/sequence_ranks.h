#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// The ranks that divide the sequences of a micro-batch among themselves, for statistics of all of
// its tokens: the extension point for context parallelism, as AttentionCore is. This base class is
// a rank with whole sequences.
class SequenceRanks {
 public:
  SequenceRanks() = default;
  SequenceRanks(const SequenceRanks&) = delete;
  SequenceRanks& operator=(const SequenceRanks&) = delete;
  virtual ~SequenceRanks() = default;

  virtual bool are_several() const { return false; }
  // In place: the mean over the ranks.
  virtual void average(Stream&, Tensor) {}

  static SequenceRanks& alone() {
    static SequenceRanks one;
    return one;
  }
};

}  // namespace trireme
