#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/input_files.h"

namespace trireme::data {

// The decompressed bytes of an input file, sequentially. Throws DataError naming the file if it is
// damaged or truncated.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `into`, or less at the end of the file; returns the number of bytes.
  virtual std::size_t read(std::span<char> into) = 0;
  virtual std::uint64_t file_bytes_read() const = 0;  // compressed bytes
};

std::unique_ptr<ByteSource> open_source(const InputFile& file);

}  // namespace trireme::data
