#pragma once
#include <cstdint>
#include <span>

namespace trireme::data {

// What a sample of the training order was as it was trained on: XXH3 of its token ids and
// targets, keyed by its number. Sums modulo 2^64 say what a batch was, whoever had which of
// its samples.
std::uint64_t sample_hash(std::uint64_t sample, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> targets);

}  // namespace trireme::data
