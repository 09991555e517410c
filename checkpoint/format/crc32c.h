#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::checkpoint {

// CRC32C as in iSCSI, and its algebra. A remainder is the CRC without its initial and final
// inversion. It is linear: the remainder of a message is the exclusive or of the remainders of its
// parts, each shifted by the number of bytes that follow. Ranks that hold parts of a tensor compute
// the CRC of the whole tensor this way.
std::uint32_t remainder_of(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The remainder after appending `bytes` zero bytes.
std::uint32_t shifted(std::uint32_t remainder, std::uint64_t bytes);

// The CRC of a message of `length` bytes from its remainder.
std::uint32_t crc_from(std::uint32_t remainder, std::uint64_t length);

std::uint32_t crc32c(std::span<const std::byte> bytes);

// shifted() by a fixed distance, precomputed.
class Shift {
 public:
  explicit Shift(std::uint64_t bytes);
  std::uint32_t operator()(std::uint32_t remainder) const {
    return table_[0][remainder & 255u] ^ table_[1][remainder >> 8 & 255u] ^
           table_[2][remainder >> 16 & 255u] ^ table_[3][remainder >> 24];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_;
};

}  // namespace trireme::checkpoint
