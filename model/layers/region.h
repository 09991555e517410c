#pragma once
#include "model/layers/sequence.h"
#include "model/params/cut.h"
#include "model/tensor/arena.h"

namespace trireme {

// The edge of a piece of the network whose work is shared. Inside, every holder
// has all the tokens and a slice of the width; outside, whatever the region
// decides. Entering and leaving are each other's conjugate, forward and back.
// (Megatron-LM's f and g, Shoeybi et al. 2019; with sequence parallelism
// Korthikanti et al. 2022.)
//
// A tensor that changes its size on the way is made in `into`; by the backward forms
// in run.lasting() when leaving, in scratch when entering. One that does not is
// returned where it was.
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

  // Whether a layer keeps what it gave to enter() and enters again in its backward, rather than
  // what came out, which is larger. (Megatron-LM's way.)
  bool enters_again(Recompute recompute) const {
    return splits_tokens() && recompute == Recompute::kNone;
  }

  // Outside [tokens / holders, width] or the same as inside [tokens, width].
  virtual Tensor enter(Run&, Arena& /*into*/, Tensor x) { return x; }
  virtual Tensor leave(Run&, Arena& /*into*/, Tensor partial) { return partial; }
  virtual Tensor leave_backward(Run&, Tensor dy) { return dy; }
  // Returns the tensor that finish() makes whole. In between the caller works on
  // something else and leaves both tensors alone. One at a time.
  virtual Tensor start_enter_backward(Run&, Tensor partial) { return partial; }
  virtual void finish(Run&) {}

  // For the loss, whose row statistics span the whole vocabulary.
  virtual void sum(Run&, Tensor) {}
  virtual void max(Run&, Tensor) {}

  // How many of `tokens` this holder has between regions.
  std::int64_t own_tokens(std::int64_t tokens) const {
    return splits_tokens() ? tokens / slice().count : tokens;
  }
  // And which, of a table [tokens].
  Tensor own_tokens(Tensor table) const {
    const std::int64_t own = own_tokens(table.count());
    return table.slice(splits_tokens() ? own * slice().index : 0, own);
  }
};

}  // namespace trireme
