#include "checkpoint/load.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint/boxes.h"
#include "checkpoint/digest.h"
#include "checkpoint/window.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

// What goes from one rectangle into one wanted piece, as runs by ascending places.
class Transfer {
 public:
  Transfer(const Rectangle& stored, const Piece& wanted, const Box& part) : data_(wanted.data) {
    const auto element = static_cast<std::int64_t>(size_of(wanted.dtype));
    for_each_run(part, stored.box, wanted.box, [&](auto from, auto to, auto count) {
      runs_.push_back({static_cast<std::uint64_t>(from * element),
                       static_cast<std::size_t>(to * element),
                       static_cast<std::size_t>(count * element)});
    });
  }

  // Copies what belongs here of the bytes that lie from `at` on; those before have come by.
  void take(std::uint64_t at, std::span<const std::byte> bytes) {
    const std::uint64_t end = at + bytes.size();
    while (next_ < runs_.size() && runs_[next_].from < end) {
      Run& run = runs_[next_];
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(run.bytes, end - run.from));
      std::memcpy(data_ + run.to, bytes.data() + (run.from - at), n);
      if (n == run.bytes) {
        ++next_;
      } else {
        run = {run.from + n, run.to + n, run.bytes - n};
      }
    }
  }

 private:
  struct Run {
    std::uint64_t from;  // in the rectangle
    std::size_t to;      // in the piece
    std::size_t bytes;
  };
  std::byte* data_;
  std::vector<Run> runs_;
  std::size_t next_ = 0;
};

// Reads a rectangle once, copies what `wanted` has of it and compares its CRC32C.
void read_rectangle(const File& file, const StoredTensor& tensor, const Rectangle& stored,
                    std::span<const Piece* const> wanted, const AlignedBuffer& buffer) {
  std::vector<Transfer> transfers;
  for (const Piece* piece : wanted) {
    const auto part = intersection(stored.box, piece->box);
    if (part) transfers.emplace_back(stored, *piece, *part);
  }
  if (transfers.empty()) return;
  Window window(file, {stored.offset, stored.bytes}, buffer);
  std::uint32_t remainder = 0;
  for (std::uint64_t at = 0; at < stored.bytes;) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, stored.bytes - at));
    const std::span<const std::byte> bytes = window.at(at, n);
    remainder = remainder_of(bytes, remainder);
    for (Transfer& transfer : transfers) transfer.take(at, bytes);
    at += n;
  }
  const std::uint32_t got = crc_from(remainder, stored.bytes);
  if (got == stored.crc32c) return;
  throw CheckpointError(say(file.path().string(), ": damaged: tensor ", tensor.name, " at byte ",
                            stored.offset, ": CRC32C ", hex(got), ", expected ",
                            hex(stored.crc32c)));
}

using PiecesOf = std::map<std::string_view, std::vector<const Piece*>>;  // by tensor

// Compares the tensors that are wanted in full with what their writer saw.
void verify_memory(const Manifest& manifest, const PiecesOf& wanted) {
  for (const auto& [name, pieces] : wanted) {
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
  const AlignedBuffer buffer = make_aligned_buffer();
  PiecesOf by_tensor;
  for (const Piece& piece : wanted) by_tensor[piece.tensor].push_back(&piece);
  for (const auto& [name, pieces] : by_tensor) {
    const StoredTensor& tensor = *manifest.find(name);
    for (const Rectangle& stored : tensor.rectangles) {
      read_rectangle(files[stored.shard], tensor, stored, pieces, buffer);
    }
  }
  verify_memory(manifest, by_tensor);
}

}  // namespace trireme::checkpoint
