#include "checkpoint/format/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace trireme::checkpoint {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bit-reversed
constexpr std::uint32_t kOne = 0x80000000;         // the polynomial 1, bit-reversed

constexpr std::uint32_t times_x(std::uint32_t a) {
  return a & 1u ? a >> 1 ^ kPolynomial : a >> 1;
}

constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) sum ^= b;
    b = times_x(b);
  }
  return sum;
}

// x^(8 * 2^k) for every k.
constexpr std::array<std::uint32_t, 64> kPowers = [] {
  std::array<std::uint32_t, 64> powers{};
  std::uint32_t power = kOne;
  for (int i = 0; i < 8; ++i) power = times_x(power);
  for (std::uint32_t& entry : powers) {
    entry = power;
    power = product(power, power);
  }
  return powers;
}();

}  // namespace

std::uint32_t remainder_of(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // the library takes an int
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMost);
    // The library's signature lacks const; it does not write.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    before = crc32_iscsi(data, static_cast<int>(n), before);
    bytes = bytes.subspan(n);
  }
  return before;
}

std::uint32_t shifted(std::uint32_t remainder, std::uint64_t bytes) {
  for (std::size_t k = 0; bytes != 0; ++k, bytes >>= 1) {
    if (bytes & 1u) remainder = product(kPowers[k], remainder);
  }
  return remainder;
}

std::uint32_t crc_from(std::uint32_t remainder, std::uint64_t length) {
  return ~(shifted(~std::uint32_t{0}, length) ^ remainder);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  return ~remainder_of(bytes, ~std::uint32_t{0});
}

Shift::Shift(std::uint64_t bytes) {
  const std::uint32_t power = shifted(kOne, bytes);
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 0; value < 256; ++value) {
      table_[byte][value] = product(power, value << 8 * byte);
    }
  }
}

}  // namespace trireme::checkpoint
