#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::checkpoint {

// Copies `from`, whose size is a multiple of 8, and returns its remainder (crc32c.h) in one pass
// over memory. Uses non-temporal stores, since the copy is not read soon.
std::uint32_t copy_with_remainder(std::byte* to, std::span<const std::byte> from);

}  // namespace trireme::checkpoint
