#pragma once
#include "model/params/cut.h"
#include "model/tensor/arena.h"

namespace trireme {

// The edge of a piece of the network whose work is shared. Inside, every holder
// has all the tokens and a slice of the width; outside, whatever the region
// decides. Entering and leaving are each other's conjugate, forward and back.
// (Megatron-LM's f and g, Shoeybi et al. 2019; with sequence parallelism
// Korthikanti et al. 2022.)
//
// This class is the region of one: nothing is shared, nothing is sent.
class Region {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  virtual ~Region() = default;

  virtual Slice slice() const { return {}; }
  virtual bool splits_tokens() const { return false; }  // are tokens shared out between regions?

  virtual Tensor enter(Run&, Tensor x) { return x; }
  virtual Tensor leave(Run&, Tensor partial) { return partial; }
  virtual Tensor enter_backward(Run&, Tensor partial) { return partial; }
  virtual Tensor leave_backward(Run&, Tensor dy) { return dy; }

  // For the loss, whose row statistics span the whole vocabulary.
  virtual void sum(Run&, Tensor) {}
  virtual void max(Run&, Tensor) {}
};

}  // namespace trireme
