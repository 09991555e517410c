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

// Fills a rank's pieces from a checkpoint's files. Throws CheckpointError where a block differs
// from its checksum, EnvironmentError where a file cannot be read.
class Loader {
 public:
  // All outlive it. The pieces are in the checkpoint.
  Loader(std::filesystem::path folder, const Manifest& manifest, std::span<const Piece> wanted);

  // What nobody else needs. Takes kWindow bytes meanwhile.
  void read(std::span<const ReadPart> parts);
  // Reads and compares one of the parts that others need as well, in their order, into `memory`:
  // as much as a Window needs. What is needed of it here is not taken yet.
  void read_shown(const ReadPart& part, std::byte* memory);
  // Takes what is needed here of a part that lies where read_shown() of any rank has put it. The
  // transfer is one of the part's rectangle.
  static void take(const Transfer& transfer, const ReadPart& part, const std::byte* memory);
  Transfer transfer_of(const ReadPart& part) const {
    return {*part.tensor, *part.rectangle, wanted_};
  }
  // Compares the tensors that are wanted in full with what their writer saw.
  void verify_memory() const;

 private:
  BlockCheck check_of(const ReadPart& part) const;

  std::filesystem::path folder_;
  const Manifest& manifest_;
  ShardFiles files_;
  PiecesOf wanted_;
  std::optional<BlockCheck> shown_;  // of the rectangle whose parts are shown now
};

}  // namespace trireme::checkpoint
