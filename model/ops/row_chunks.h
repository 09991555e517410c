#pragma once
#include <cstdint>

namespace trireme::ops {

// Rows whose contribution to a parameter gradient is summed at once. Fixed, with chunks added in
// order, so that the bits do not depend on the distribution of work.
inline constexpr std::int64_t kRowChunk = 64;

constexpr std::int64_t row_chunks(std::int64_t rows) {
  return (rows + kRowChunk - 1) / kRowChunk;
}

}  // namespace trireme::ops
