#include "model/stage/offloaded_blocks.h"

#include <algorithm>

#include "model/device/copy.h"

namespace trireme {
namespace {

// Reallocates the first `bytes` of the arena.
Tensor taken_again(Arena& arena, std::size_t bytes) {
  arena.reset();
  return arena.take({static_cast<std::int64_t>(bytes / sizeof(float))}, DType::kF32);
}

}  // namespace

BlockWindow::BlockWindow(std::deque<Arena>& arenas) : ring_(arenas.size()) {
  for (Arena& arena : arenas) buffers_.push_back({.arena = &arena});
}

Arena& OffloadedBlocks::begin(const ExecContext& ctx, std::size_t block) {
  if (block == 0) {
    host_.reset();
    places_.clear();
  }
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  window_.ring_.await_departure(ctx.stream, window_.slot_of(block));
  buffer.arena->reset();
  buffer.owner = this;
  buffer.block = block;
  return *buffer.arena;
}

void OffloadedBlocks::offload(const ExecContext& ctx, std::size_t block) {
  Arena& arena = *window_.buffer_of(block).arena;
  const std::size_t bytes = arena.used();
  const Tensor from = taken_again(arena, bytes);
  places_.resize(std::max(places_.size(), block + 1));
  Place& place = places_[block];
  if (bytes > place.host.bytes()) place.host = host_.take(from.shape, from.dtype);
  place.bytes = bytes;
  window_.ring_.copy_out(ctx.stream, window_.slot_of(block),
                         [&](Stream& out) { copy_bytes(out, place.host.data, from.data, bytes); });
}

// No-op if the block is present or being copied.
void OffloadedBlocks::copy_in(const ExecContext& ctx, std::size_t block) {
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  if (buffer.owner == this && buffer.block == block) return;
  buffer.owner = this;
  buffer.block = block;
  const Place& place = places_.at(block);
  const Tensor to = taken_again(*buffer.arena, place.bytes);
  window_.ring_.copy_in(ctx.stream, window_.slot_of(block),
                        [&](Stream& in) { copy_bytes(in, to.data, place.host.data, place.bytes); });
}

Arena& OffloadedBlocks::fetch(const ExecContext& ctx, std::size_t block) {
  copy_in(ctx, block);
  window_.ring_.await_arrival(ctx.stream, window_.slot_of(block));
  return *window_.buffer_of(block).arena;
}

void OffloadedBlocks::prefetch_before(const ExecContext& ctx, std::size_t block) {
  const std::size_t others = window_.buffers_.size() - 1;
  for (std::size_t back = 1; back <= std::min(block, others); ++back) copy_in(ctx, block - back);
}

void OffloadedBlocks::release(const ExecContext& ctx, std::size_t block) {
  window_.buffer_of(block).owner = nullptr;
  window_.ring_.note_computed(ctx.stream, window_.slot_of(block));
}

}  // namespace trireme
