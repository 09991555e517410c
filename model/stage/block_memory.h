#pragma once
#include <cstddef>

#include "model/tensor/arena.h"

namespace trireme {

// Where the blocks of a stage keep one micro-batch's inputs of theirs and what they save for
// their backward. This one: in run.keep, from the forward until the micro-batch has gone
// backward. Blocks are counted from the stage's first.
class BlockMemory {
 public:
  BlockMemory() = default;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  virtual ~BlockMemory() = default;

  // Forward, block by block: where this one keeps, while it and the one before work.
  virtual Arena& begin(const Run& run, std::size_t) { return run.keep; }
  // What the block keeps is complete, and is not needed until bring_back().
  virtual void put_away(const Run&, std::size_t) {}
  // Backward, from the last block on: where the block's things are, at the addresses that they
  // had, with room behind them.
  virtual Arena& bring_back(const Run& run, std::size_t) { return run.keep; }
  // The block begins to work, and those before it will be wanted.
  virtual void expect_before(const Run&, std::size_t) {}
  // What the block kept is not needed any more.
  virtual void drop(const Run&, std::size_t) {}
};

}  // namespace trireme
