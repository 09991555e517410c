#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/input_files.h"

namespace trireme::data {

// The bytes of an input file from its beginning, decompressed on the way. Throws DataError naming
// the file when it is damaged or cut off.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `into`, or less at the end; returns how much.
  virtual std::size_t read(std::span<char> into) = 0;
  virtual std::uint64_t file_bytes_read() const = 0;  // of the file as it lies on the disk
};

std::unique_ptr<ByteSource> open_source(const InputFile& file);

}  // namespace trireme::data
