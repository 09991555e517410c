#pragma once
#include <deque>
#include <vector>

#include "model/device/copy_ring.h"
#include "model/stage/block_memory.h"

namespace trireme {

class OffloadedBlocks;

// Device buffers for the saved activations of blocks, used in turn, with copies to the host and
// back (vDNN, Rhu et al. 2016, per block instead of per layer). Shared by all micro-batches in
// flight, since one block runs at a time.
class BlockWindow {
 public:
  // One in use, one for the previous and one for the next block being copied.
  static constexpr std::size_t kBuffers = CopyRing::kSlots;

  // One arena per buffer; they outlive the window.
  explicit BlockWindow(std::deque<Arena>& arenas);

 private:
  friend class OffloadedBlocks;
  struct Buffer {
    Arena* arena;
    const OffloadedBlocks* owner = nullptr;  // whose block it has or receives
    std::size_t block = 0;
  };
  std::size_t slot_of(std::size_t block) const { return block % buffers_.size(); }
  Buffer& buffer_of(std::size_t block) { return buffers_[slot_of(block)]; }

  std::vector<Buffer> buffers_;
  CopyRing ring_;
};

// Offloaded block memory of one micro-batch in flight, in pinned host memory until its backward.
// Every block is offloaded after its forward and prefetched during the backward of the next block.
// A block always uses the same buffer of the window, so that pointers into it stay valid.
class OffloadedBlocks final : public BlockMemory {
 public:
  // Both outlive this object; `host` is used by this micro-batch only.
  OffloadedBlocks(BlockWindow& window, Arena& host) : window_(window), host_(host) {}

  Arena& begin(const ExecContext& ctx, std::size_t block) override;
  void offload(const ExecContext& ctx, std::size_t block) override;
  Arena& fetch(const ExecContext& ctx, std::size_t block) override;
  void prefetch_before(const ExecContext& ctx, std::size_t block) override;
  void release(const ExecContext& ctx, std::size_t block) override;

 private:
  void copy_in(const ExecContext& ctx, std::size_t block);

  BlockWindow& window_;
  Arena& host_;
  struct Place {
    Tensor host;            // space for the block's data
    std::size_t bytes = 0;  // size of the data
  };
  std::vector<Place> places_;  // by block
};

}  // namespace trireme
