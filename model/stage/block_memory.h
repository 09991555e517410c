#pragma once
#include <cstddef>

#include "model/tensor/arena.h"

namespace trireme {

// Memory for the inputs and saved activations of a stage's blocks for one micro-batch. This base
// class uses ctx.saved from the forward to the end of the micro-batch's backward. Blocks are
// indexed within the stage.
class BlockMemory {
 public:
  BlockMemory() = default;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  virtual ~BlockMemory() = default;

  // Forward, in block order: the arena for this block, valid while it and the previous block run.
  virtual Arena& begin(const ExecContext& ctx, std::size_t) { return ctx.saved; }
  // Offload: the block's data is complete, and not needed until fetch().
  virtual void offload(const ExecContext&, std::size_t) {}
  // Fetch, in the backward, from the last block on: the arena with the block's data, at the same
  // addresses, and free space after it.
  virtual Arena& fetch(const ExecContext& ctx, std::size_t) { return ctx.saved; }
  // Prefetch: the backward of this block starts, and earlier blocks will be needed next.
  virtual void prefetch_before(const ExecContext&, std::size_t) {}
  // Release: the block's data is no longer needed.
  virtual void release(const ExecContext&, std::size_t) {}
};

}  // namespace trireme
