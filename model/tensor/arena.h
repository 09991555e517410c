#pragma once
#include <algorithm>
#include <cstddef>

#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// A stack allocator over one block of device memory, freed as a whole or frame by frame. A training
// step calls no other allocator.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 128;

  // Owns `bytes` of zeroed memory on `device`.
  explicit Arena(std::size_t bytes, Device device = {})
      : memory_(bytes, device), base_(memory_.data()), capacity_(bytes), device_(device) {}

  // Uses zeroed host memory owned by the caller, aligned to kAlignment.
  Arena(std::byte* memory, std::size_t bytes) : base_(memory), capacity_(bytes) {}

  // Owns zeroed pinned host memory for fast copies from and to `device`; its tensors are host
  // tensors.
  static Arena pinned(std::size_t bytes, Device device) {
    Arena arena(nullptr, bytes);
    arena.memory_ = Memory::pinned(bytes, device);
    arena.base_ = arena.memory_.data();
    return arena;
  }

  // Without memory and limit: returns addresses that must not be accessed, so that a dry run
  // measures the memory needed (`peak`).
  static Arena unbounded(Device device = {}) {
    Arena arena(0, device);
    arena.base_ = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    arena.capacity_ = std::size_t{1} << 60;
    return arena;
  }

  Tensor take(Shape shape, DType dtype = DType::kF32) {
    const std::size_t bytes = rounded(static_cast<std::size_t>(shape.count()) * size_of(dtype));
    require(used_ + bytes <= capacity_, "arena of ", capacity_, " bytes is full: ", used_,
            " used, ", bytes, " more needed");
    const Tensor tensor{base_ + used_, dtype, shape, device_};
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return tensor;
  }
  void reset() { used_ = 0; }
  // Nothing is in use, nor was; the contents stay.
  void forget() { used_ = peak_ = 0; }
  // Everything that was ever in use.
  Tensor ever_used() const {
    return {base_, DType::kI32, {static_cast<std::int64_t>(peak_ / size_of(DType::kI32))}, device_};
  }
  // As if `used` bytes had been taken since reset(): for work that is repeated without its calls.
  void set_used(std::size_t used) {
    require(used <= peak_, "an arena that never had ", used, " bytes in use");
    used_ = used;
  }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  std::size_t capacity() const { return capacity_; }
  // Whether the tensor is in this arena's memory.
  bool holds(const Tensor& tensor) const {
    return tensor.data >= base_ && tensor.data < base_ + capacity_;
  }
  Device device() const { return device_; }

  static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Frees the allocations made during its lifetime. Allocate the result before opening the frame.
  class Frame {
   public:
    explicit Frame(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Frame() { arena_.used_ = mark_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Arena& arena_;
    std::size_t mark_;
  };

 private:
  Memory memory_;
  std::byte* base_;
  std::size_t capacity_;
  Device device_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

class DeferredGradients;  // model/layers
class BlockMemory;        // model/stage

// Execution context of a layer call.
struct ExecContext {
  Stream& stream;
  Arena& saved;    // saved activations, until the backward of this micro-batch
  Arena& scratch;  // temporaries, until the enclosing Frame closes
  // Collects deferred weight gradients of linear layers; null: they are computed immediately.
  DeferredGradients* deferred = nullptr;
  // Memory of the blocks; null: `saved`.
  BlockMemory* blocks = nullptr;

  // Arena for inputs of deferred gradients.
  Arena& lasting() const { return deferred ? saved : scratch; }
};

}  // namespace trireme
