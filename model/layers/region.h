#pragma once
#include "model/layers/recompute.h"
#include "model/params/cut.h"
#include "model/tensor/arena.h"

namespace trireme {

// The boundary of a tensor-parallel part of the network. Inside, every rank has all tokens and a
// slice of the width; the layout outside depends on the region. Entry and exit are conjugate: the
// backward of one is the forward of the other. (f and g of Megatron-LM, Shoeybi et al. 2019; with
// sequence parallelism Korthikanti et al. 2022.)
//
// A tensor whose size changes is allocated in `into`; in the backward forms in ctx.lasting() on
// leave, in scratch on enter. Otherwise the argument is returned.
//
// This base class is the region of a single rank: no sharding, no communication.
class Region {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  virtual ~Region() = default;

  virtual Slice slice() const { return {}; }
  virtual bool splits_tokens() const { return false; }  // sequence parallelism

  // Whether a layer saves the input of enter() and enters again in its backward, rather than saving
  // its larger output (as Megatron-LM does).
  bool recomputes_enter(Recompute recompute) const {
    return splits_tokens() && recompute == Recompute::kNone;
  }

  // Outside the layout is [tokens / ranks, width], or [tokens, width] as inside.
  virtual Tensor enter(ExecContext&, Arena& /*into*/, Tensor x) { return x; }
  virtual Tensor leave(ExecContext&, Arena& /*into*/, Tensor partial) { return partial; }
  virtual Tensor leave_backward(ExecContext&, Tensor dy) { return dy; }
  // Returns the tensor that finish() completes. In between the caller must not use either tensor.
  // Only one may be pending.
  virtual Tensor start_enter_backward(ExecContext&, Tensor partial) { return partial; }
  virtual void finish(ExecContext&) {}

  // All-reduce for the loss, whose row statistics span the whole vocabulary.
  virtual void sum(ExecContext&, Tensor) {}
  virtual void max(ExecContext&, Tensor) {}

  // Number of tokens of this rank outside regions.
  std::int64_t own_tokens(std::int64_t tokens) const {
    return splits_tokens() ? tokens / slice().count : tokens;
  }
  // Rows of a table [tokens] of this rank outside regions.
  Tensor own_tokens(Tensor table) const {
    const std::int64_t own = own_tokens(table.count());
    return table.slice(splits_tokens() ? own * slice().index : 0, own);
  }
};

}  // namespace trireme
