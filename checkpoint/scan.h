#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/window.h"

namespace trireme::checkpoint {

struct Scan {
  std::uint64_t bytes = 0;            // the file's size
  std::uint32_t crc32c = 0;           // of the whole file
  std::vector<std::uint32_t> ranges;  // CRC32C of each requested range
};

// Reads a file once and computes the CRC32C of the whole file and of `ranges`, which do not overlap
// and are inside the file. Throws EnvironmentError if it cannot be read.
Scan scan_file(const std::filesystem::path& path, std::span<const Range> ranges);

// CRC32C of one range of an open file, with a fixed-size buffer.
std::uint32_t crc_of_range(const File& file, Range range, const AlignedBuffer& buffer);

}  // namespace trireme::checkpoint
