#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): four random
// words from a key and a counter, stateless. All random numbers of the trainer are keyed by
// purpose, never by process, so they do not depend on layout, thread count or restarts.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                              std::uint64_t counter_high = 0) {
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// Key for one purpose: a seed and a name ("init/layers.0.mlp.up.weight").
constexpr std::uint64_t random_key(std::uint64_t seed, std::string_view purpose) {
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a; Philox does the mixing
  for (const char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  const auto mixed = philox(seed, hash);
  return mixed[0] | std::uint64_t{mixed[1]} << 32;
}

}  // namespace trireme
