#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "model/device/event.h"
#include "model/stage/block_memory.h"

namespace trireme {

class OffloadedBlocks;

// A few pieces of device memory that blocks keep their activations in by turns, and the streams
// on which these go to the host and come back (vDNN, Rhu et al. 2016, with whole blocks for its
// layers). The blocks of all micro-batches in flight share it, since one works at a time.
class BlockWindow {
 public:
  // One works, one before it and one after it are on their way.
  static constexpr std::size_t kBuffers = 3;

  // An arena for each piece; they outlive the window.
  explicit BlockWindow(std::deque<Arena>& arenas);

 private:
  friend class OffloadedBlocks;
  struct Events {
    explicit Events(Device device) : computed(device), left(device), arrived(device) {}
    // The last work on the piece, the last copy of it to the host, the last from there.
    Event computed, left, arrived;
  };
  struct Buffer {
    explicit Buffer(Arena& memory) : arena(memory) {}
    Arena& arena;
    const OffloadedBlocks* owner = nullptr;  // whose block is in it, or on its way to it
    std::size_t block = 0;
    std::optional<Events> events;
  };
  struct Ways {
    explicit Ways(Device device) : out(device), in(device) {}
    Stream out, in;
  };
  Buffer& buffer_of(std::size_t block) { return buffers_[block % buffers_.size()]; }
  void open(const Stream& stream);

  std::deque<Buffer> buffers_;
  std::optional<Ways> ways_;  // from the first step that is computed
};

// The blocks' memory of one micro-batch in flight, which waits for its backward in pinned memory
// of the host. Every block leaves when its forward is done and comes back while the one after it
// goes backward. Its piece of the window is always the same, so that what points into it holds.
class OffloadedBlocks final : public BlockMemory {
 public:
  // Both outlive this; `host` is this micro-batch's alone.
  OffloadedBlocks(BlockWindow& window, Arena& host) : window_(window), host_(host) {}

  Arena& begin(const Run& run, std::size_t block) override;
  void put_away(const Run& run, std::size_t block) override;
  Arena& bring_back(const Run& run, std::size_t block) override;
  void expect_before(const Run& run, std::size_t block) override;
  void drop(const Run& run, std::size_t block) override;

 private:
  void fetch(const Run& run, std::size_t block);

  BlockWindow& window_;
  Arena& host_;
  struct Place {
    Tensor host;            // room for the block's bytes
    std::size_t bytes = 0;  // of them in use
  };
  std::vector<Place> places_;  // by block
};

}  // namespace trireme
