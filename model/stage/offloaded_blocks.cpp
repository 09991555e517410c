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

BlockWindow::BlockWindow(std::deque<Arena>& arenas) {
  for (Arena& arena : arenas) buffers_.emplace_back(arena);
}

void BlockWindow::open(const Stream& stream) {
  if (copy_streams_ || !stream.executes()) return;
  copy_streams_.emplace(stream.device());
  for (Buffer& buffer : buffers_) buffer.events.emplace(stream.device());
}

Arena& OffloadedBlocks::begin(const ExecContext& ctx, std::size_t block) {
  window_.open(ctx.stream);
  if (block == 0) {
    host_.reset();
    places_.clear();
  }
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  if (ctx.stream.executes()) buffer.events->left.make_wait(ctx.stream);
  buffer.arena.reset();
  buffer.owner = this;
  buffer.block = block;
  return buffer.arena;
}

void OffloadedBlocks::offload(const ExecContext& ctx, std::size_t block) {
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  const std::size_t bytes = buffer.arena.used();
  const Tensor from = taken_again(buffer.arena, bytes);
  places_.resize(std::max(places_.size(), block + 1));
  Place& place = places_[block];
  if (bytes > place.host.bytes()) place.host = host_.take(from.shape, from.dtype);
  place.bytes = bytes;
  if (!ctx.stream.executes()) return;
  Stream& out = window_.copy_streams_->out;
  buffer.events->computed.record(ctx.stream);
  buffer.events->computed.make_wait(out);
  copy_bytes(out, place.host.data, from.data, bytes);
  buffer.events->left.record(out);
}

// No-op if the block is present or being copied.
void OffloadedBlocks::copy_in(const ExecContext& ctx, std::size_t block) {
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  if (buffer.owner == this && buffer.block == block) return;
  buffer.owner = this;
  buffer.block = block;
  const Place& place = places_.at(block);
  const Tensor to = taken_again(buffer.arena, place.bytes);
  if (!ctx.stream.executes()) return;
  Stream& in = window_.copy_streams_->in;
  buffer.events->computed.make_wait(in);
  // The block's own copy to the host also read this buffer; it is complete then.
  buffer.events->left.make_wait(in);
  copy_bytes(in, to.data, place.host.data, place.bytes);
  buffer.events->arrived.record(in);
}

Arena& OffloadedBlocks::fetch(const ExecContext& ctx, std::size_t block) {
  copy_in(ctx, block);
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  if (ctx.stream.executes()) buffer.events->arrived.make_wait(ctx.stream);
  return buffer.arena;
}

void OffloadedBlocks::prefetch_before(const ExecContext& ctx, std::size_t block) {
  const std::size_t others = window_.buffers_.size() - 1;
  for (std::size_t back = 1; back <= std::min(block, others); ++back) copy_in(ctx, block - back);
}

void OffloadedBlocks::release(const ExecContext& ctx, std::size_t block) {
  BlockWindow::Buffer& buffer = window_.buffer_of(block);
  buffer.owner = nullptr;
  if (ctx.stream.executes()) buffer.events->computed.record(ctx.stream);
}

}  // namespace trireme
