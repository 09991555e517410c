#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "checkpoint/manifest.h"

namespace trireme::checkpoint {

// Compares a rectangle's bytes with the checksums of its blocks as they come by.
class BlockCheck {
 public:
  // Both outlive it; `file` is for messages.
  BlockCheck(std::filesystem::path file, const StoredTensor& tensor, const Rectangle& stored)
      : file_(std::move(file)), tensor_(&tensor), stored_(&stored) {}

  const Rectangle& rectangle() const { return *stored_; }
  // `bytes` lie from `at` on in the rectangle: at the begin of a block, or where the last ended.
  // Throws CheckpointError, naming file and tensor, when a block has ended that differs.
  void see(std::uint64_t at, std::span<const std::byte> bytes);

 private:
  void compare(std::uint64_t from, std::uint64_t to) const;

  std::filesystem::path file_;
  const StoredTensor* tensor_;
  const Rectangle* stored_;
  std::uint32_t remainder_ = 0;  // of the block so far
};

}  // namespace trireme::checkpoint
