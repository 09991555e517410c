#pragma once
#include <cstdint>
#include <span>

namespace trireme::data {

// Fingerprint of a training sample: XXH3 of its token ids and targets, keyed by its number. The
// fingerprint of a batch is the sum modulo 2^64, independent of how its samples are distributed
// over ranks.
std::uint64_t sample_hash(std::uint64_t sample, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> targets);

}  // namespace trireme::data
