#include "data/token_batch.h"

#include <xxhash.h>

namespace trireme::data {

std::uint64_t sample_hash(std::uint64_t sample, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> targets) {
  const std::uint64_t of_ids = XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), sample);
  return XXH3_64bits_withSeed(targets.data(), targets.size_bytes(), of_ids);
}

}  // namespace trireme::data
