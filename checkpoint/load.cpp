#include "checkpoint/load.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/boxes.h"
#include "checkpoint/digest.h"
#include "checkpoint/scan.h"
#include "checkpoint/window.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

struct Transfer {
  const StoredTensor* tensor;
  const Rectangle* stored;
  const Piece* wanted;
  Box part;  // what the two share
};

std::vector<Transfer> plan(const Manifest& manifest, std::span<const Piece> wanted) {
  std::vector<Transfer> transfers;
  for (const Piece& piece : wanted) {
    const StoredTensor& tensor = *manifest.find(piece.tensor);
    for (const Rectangle& rectangle : tensor.rectangles) {
      if (const auto part = intersection(rectangle.box, piece.box)) {
        transfers.push_back({&tensor, &rectangle, &piece, *part});
      }
    }
  }
  return transfers;
}

void verify(ShardFiles& files, std::span<const Transfer> transfers, const AlignedBuffer& buffer) {
  std::set<const Rectangle*> done;
  for (const Transfer& transfer : transfers) {
    const Rectangle& stored = *transfer.stored;
    if (!done.insert(&stored).second) continue;
    const std::uint32_t got =
        crc_of_range(files[stored.shard], {stored.offset, stored.bytes}, buffer);
    if (got == stored.crc32c) continue;
    throw CheckpointError(say(files[stored.shard].path().string(), ": damaged: tensor ",
                              transfer.tensor->name, " at byte ", stored.offset, ": CRC32C ",
                              hex(got), ", expected ", hex(stored.crc32c)));
  }
}

void copy(const File& file, const Transfer& transfer, const AlignedBuffer& buffer) {
  const std::size_t element = size_of(transfer.tensor->dtype);
  const Rectangle& stored = *transfer.stored;
  Window window(file, {stored.offset, stored.bytes}, buffer);
  for_each_run(transfer.part, stored.box, transfer.wanted->box, [&](auto from, auto to, auto n) {
    const std::size_t bytes = static_cast<std::size_t>(n) * element;
    const std::uint64_t at = static_cast<std::uint64_t>(from) * element;
    std::byte* target = transfer.wanted->data + static_cast<std::size_t>(to) * element;
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t chunk = std::min(bytes - done, kWindow);
      std::memcpy(target + done, window.at(at + done, chunk).data(), chunk);
      done += chunk;
    }
  });
}

// Compares the tensors that `wanted` has in full with what their writer saw.
void verify_memory(const Manifest& manifest, std::span<const Piece> wanted) {
  std::map<std::string_view, std::vector<const Piece*>> tensors;
  for (const Piece& piece : wanted) tensors[piece.tensor].push_back(&piece);
  for (const auto& [name, pieces] : tensors) {
    std::vector<Box> boxes;
    for (const Piece* piece : pieces) boxes.push_back(piece->box);
    const StoredTensor& stored = *manifest.find(name);
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

}  // namespace

void check_files(const std::filesystem::path& folder, const Manifest& manifest) {
  const auto check = [&](const StoredFile& file) {
    const std::uint64_t size = File::open_read(folder / file.name).size();
    if (size == file.bytes) return;
    throw CheckpointError(say((folder / file.name).string(), ": ", size, " bytes, expected ",
                              file.bytes, size < file.bytes ? ": it is truncated" : ""));
  };
  for (const StoredFile& shard : manifest.shards) check(shard);
}

void load_pieces(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const Piece> wanted, Match match) {
  check_match(manifest, wanted, match, folder.string());
  check_files(folder, manifest);
  ShardFiles files(folder, manifest);
  const std::vector<Transfer> transfers = plan(manifest, wanted);
  const AlignedBuffer buffer = make_aligned_buffer();
  verify(files, transfers, buffer);
  for (const Transfer& transfer : transfers) copy(files[transfer.stored->shard], transfer, buffer);
  verify_memory(manifest, wanted);
}

}  // namespace trireme::checkpoint
