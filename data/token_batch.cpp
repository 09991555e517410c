#include "data/token_batch.h"

#include <xxhash.h>

#include <iterator>

#include "model/base/philox.h"

namespace trireme::data {

std::uint64_t sample_hash(std::uint64_t sample, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> targets) {
  const std::uint64_t of_ids = XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), sample);
  return XXH3_64bits_withSeed(targets.data(), targets.size_bytes(), of_ids);
}

void draw_dropout_words(const TokenBatch& batch, std::uint64_t seed, std::uint64_t first) {
  if (batch.dropout_words.empty()) return;
  const std::uint64_t key = random_key(seed, "dropout");
  for (std::int64_t i = 0; i < std::ssize(batch.dropout_words); ++i) {
    const auto sample = first + static_cast<std::uint64_t>(i / batch.seq_len);
    const auto place = static_cast<std::uint64_t>(i % batch.seq_len);
    // Four places of a sample share a draw.
    batch.dropout_words[i] = static_cast<std::int32_t>(philox(key, place / 4, sample)[place % 4]);
  }
}

}  // namespace trireme::data
