#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "checkpoint/manifest.h"

namespace trireme::checkpoint {

// Verifies the bytes of a stored box against its block checksums as they are read.
class BlockCheck {
 public:
  // Both outlive it; `file` is used in messages.
  BlockCheck(std::filesystem::path file, const StoredTensor& tensor, const Rectangle& stored)
      : file_(std::move(file)), tensor_(&tensor), stored_(&stored) {}

  const Rectangle& rectangle() const { return *stored_; }
  // Checks `bytes` at offset `at` of the box: the start of a block, or the end of the previous
  // call. Throws CheckpointError, naming file and tensor, when a completed block does not match.
  void see(std::uint64_t at, std::span<const std::byte> bytes);

 private:
  void compare(std::uint64_t from, std::uint64_t to) const;

  std::filesystem::path file_;
  const StoredTensor* tensor_;
  const Rectangle* stored_;
  std::uint32_t remainder_ = 0;  // of the current block
};

}  // namespace trireme::checkpoint
