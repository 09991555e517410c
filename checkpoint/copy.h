#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::checkpoint {

// Copies `from` to a multiple of 8 and returns its remainder (crc32c.h), on one way through
// memory. The copy goes past the caches: it is not read soon.
std::uint32_t copy_with_remainder(std::byte* to, std::span<const std::byte> from);

}  // namespace trireme::checkpoint
