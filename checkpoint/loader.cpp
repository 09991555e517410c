#include "checkpoint/loader.h"

#include <algorithm>
#include <utility>

#include "checkpoint/blocks.h"
#include "checkpoint/boxes.h"
#include "checkpoint/digest.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

Range range_of(const ReadPart& part) {
  return {part.rectangle->offset + part.from, part.bytes()};
}

}  // namespace

Loader::Loader(std::filesystem::path folder, const Manifest& manifest,
               std::span<const Piece> wanted)
    : folder_(std::move(folder)),
      manifest_(manifest),
      files_(folder_, manifest),
      wanted_(by_tensor(wanted)) {}

BlockCheck Loader::check_of(const ReadPart& part) const {
  return {folder_ / manifest_.shards[part.rectangle->shard].name, *part.tensor, *part.rectangle};
}

void Loader::read(std::span<const ReadPart> parts) {
  const AlignedBuffer buffer = make_aligned_buffer();
  for (const ReadPart& part : parts) {
    const Transfer transfer = transfer_of(part);
    BlockCheck check = check_of(part);
    Window window(files_[part.rectangle->shard], range_of(part), buffer);
    // Verify and copy a block while it is in the cache.
    const std::uint64_t step = std::min<std::uint64_t>(checked_bytes(*part.rectangle), kWindow);
    for (std::uint64_t at = part.from; at < part.to; at += step) {
      const auto n = static_cast<std::size_t>(std::min(step, part.to - at));
      const std::span<const std::byte> bytes = window.at(at - part.from, n);
      check.see(at, bytes);
      transfer.take(at, bytes);
    }
  }
}

void Loader::read_shown(const ReadPart& part, std::byte* memory) {
  if (!shown_ || &shown_->rectangle() != part.rectangle) shown_.emplace(check_of(part));
  Window window(files_[part.rectangle->shard], range_of(part), memory);
  shown_->see(part.from, window.at(0, part.bytes()));
}

void Loader::take(const Transfer& transfer, const ReadPart& part, const std::byte* memory) {
  transfer.take(part.from, {memory + range_of(part).offset % kBlock, part.bytes()});
}

void Loader::verify_memory() const {
  for (const auto& [name, pieces] : wanted_) {
    std::vector<Box> boxes;
    for (const Piece* piece : pieces) boxes.push_back(piece->box);
    const StoredTensor& stored = *manifest_.find(name);
    if (!tile_exactly(boxes, stored.shape)) continue;
    std::uint32_t remainder = 0;
    for (const Piece* piece : pieces) {
      const auto read = [&](std::uint64_t at, std::size_t n) {
        return std::span<const std::byte>(piece->data + at, n);
      };
      remainder ^= digest_of(piece->box, stored.shape, size_of(stored.dtype), read).share;
    }
    const std::uint32_t got = crc_from(remainder, stored.bytes());
    if (got == stored.crc32c) continue;
    throw CheckpointError(say("tensor ", name, " differs in memory from what was stored: CRC32C ",
                              hex(got), ", expected ", hex(stored.crc32c)));
  }
}

}  // namespace trireme::checkpoint
