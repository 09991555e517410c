#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "checkpoint/block_check.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/read_plan.h"
#include "checkpoint/transfer.h"
#include "checkpoint/window.h"

namespace trireme::checkpoint {

// Fills a rank's pieces from a checkpoint's files. Throws CheckpointError if a block does not match
// its checksum, EnvironmentError if a file cannot be read.
class Loader {
 public:
  // All arguments outlive it. The checkpoint contains the pieces.
  Loader(std::filesystem::path folder, const Manifest& manifest, std::span<const Piece> wanted);

  // Reads parts that only this rank needs. Uses a buffer of kWindow bytes.
  void read(std::span<const ReadPart> parts);
  // Reads and verifies one part that other ranks need too into `memory`, which has the size a
  // Window needs. Parts of a box must come in order. Does not copy to this rank's pieces.
  void read_shown(const ReadPart& part, std::byte* memory);
  // Copies to this rank's pieces what they need of a part read by read_shown() on any rank.
  // `transfer` is the one of the part's box.
  static void take(const Transfer& transfer, const ReadPart& part, const std::byte* memory);
  Transfer transfer_of(const ReadPart& part) const {
    return {*part.tensor, *part.rectangle, wanted_};
  }
  // Verifies completely loaded tensors against the checksums in the manifest.
  void verify_memory() const;

 private:
  BlockCheck check_of(const ReadPart& part) const;

  std::filesystem::path folder_;
  const Manifest& manifest_;
  ShardFiles files_;
  PiecesOf wanted_;
  std::optional<BlockCheck> shown_;  // of the box whose parts are being shared
};

}  // namespace trireme::checkpoint
