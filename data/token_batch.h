#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// The tokens of a step, an evaluation or one sample in host memory, sequence by sequence: spans of
// sequences * seq_len.
struct TokenBatch {
  std::int64_t sequences = 0, seq_len = 0;
  std::span<std::int32_t> ids;
  std::span<std::int32_t> targets;             // -1: no target (end of a document, if masked)
  std::span<std::int32_t> positions;           // restart at every document, if masked
  std::span<std::int32_t> document_start;      // start of this token's document; 0 if not masked
  std::span<std::int32_t> dropout_words = {};  // see draw_dropout_words(); empty: no dropout

  TokenBatch part(std::int64_t first, std::int64_t count) const {
    const auto of = [&](std::span<std::int32_t> all) {
      return all.subspan(first * seq_len, count * seq_len);
    };
    return {count,
            seq_len,
            of(ids),
            of(targets),
            of(positions),
            of(document_start),
            dropout_words.empty() ? dropout_words : of(dropout_words)};
  }

  static constexpr std::int64_t kArrays = 4;
  // In memory [arrays, sequences * seq_len]: ids, targets, positions, document_start and, if it has
  // more than kArrays, dropout_words.
  static TokenBatch in(std::span<std::int32_t> memory, std::int64_t sequences,
                       std::int64_t seq_len) {
    const std::int64_t tokens = sequences * seq_len;
    const auto array = [&](std::int64_t number) { return memory.subspan(number * tokens, tokens); };
    const bool has_words = std::ssize(memory) > kArrays * tokens;
    return {sequences,
            seq_len,
            array(0),
            array(1),
            array(2),
            array(3),
            has_words ? array(kArrays) : std::span<std::int32_t>()};
  }
};

// Memory of one sequence.
class SequenceBuffer {
 public:
  explicit SequenceBuffer(std::int64_t seq_len)
      : memory_(TokenBatch::kArrays * seq_len), batch_(TokenBatch::in(memory_, 1, seq_len)) {}
  SequenceBuffer(const SequenceBuffer&) = delete;
  SequenceBuffer& operator=(const SequenceBuffer&) = delete;
  const TokenBatch& batch() const { return batch_; }

 private:
  std::vector<std::int32_t> memory_;
  TokenBatch batch_;
};

// Fingerprint of a training sample: XXH3 of its token ids and targets, keyed by its number. The
// fingerprint of a batch is the sum modulo 2^64, independent of how its samples are distributed
// over ranks.
std::uint64_t sample_hash(std::uint64_t sample, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> targets);

// A random word of each token, of its sample and its place in it: with it dropout has the same
// masks in every layout. The batch has samples from `first` on. Nothing without dropout.
void draw_dropout_words(const TokenBatch& batch, std::uint64_t seed, std::uint64_t first);

}  // namespace trireme::data
