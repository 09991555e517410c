#pragma once
#include <cstdint>

#include "model/device/tuning.h"

namespace trireme::ops {

// Chunks of rows whose contributions to a parameter gradient are summed, then added in order. Their
// size is fixed, so that the bits do not depend on the distribution of work.
inline constexpr std::int64_t kCpuRowChunk = tuning_of({}).row_chunk;
inline constexpr std::int64_t kCudaRowChunk = tuning_of({Device::Kind::kCuda}).row_chunk;

constexpr std::int64_t row_chunks(std::int64_t rows, Device device) {
  const std::int64_t chunk = tuning_of(device).row_chunk;
  return (rows + chunk - 1) / chunk;
}

}  // namespace trireme::ops
