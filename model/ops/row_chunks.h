#pragma once
#include <cstdint>

namespace trireme::ops {

// Rows whose share of a parameter's gradient is summed in one go. Fixed, and the
// chunks are added in order, so that the bits do not depend on who does which.
inline constexpr std::int64_t kRowChunk = 64;

constexpr std::int64_t row_chunks(std::int64_t rows) {
  return (rows + kRowChunk - 1) / kRowChunk;
}

}  // namespace trireme::ops
