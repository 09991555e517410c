#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// The sequences of one dataset in Megatron-LM's order: sequence first + i has sizes[i] tokens.
struct MegatronPart {
  std::vector<std::int32_t> sizes;
  std::int64_t tokens = 0;
};

// Document, sample and shuffle index exactly as built by Megatron-LM's GPTDataset (its "documents"
// are our sequences). A sample has seq_len + 1 tokens, shares the last one with the next sample,
// and spans document boundaries. Memory: 4 bytes per document and epoch, 12 per sample; built in
// one pass over both.
class MegatronIndices {
 public:
  // Builds at least `samples` samples, over as many epochs as needed. Throws DataError if the
  // dataset is too small for one sample, ConfigError if a count exceeds 32 bits.
  MegatronIndices(const MegatronPart& part, std::int64_t seq_len, std::uint64_t samples,
                  std::uint32_t seed);

  std::uint64_t samples() const { return shuffle_.size(); }
  // Row of the sample index for the i-th training sample.
  std::uint64_t row(std::uint64_t i) const { return shuffle_[i]; }

  struct Place {
    std::int32_t at;      // index into documents()
    std::int32_t offset;  // token within that document
  };
  // Position of the first token of row r; its last token, shared with the next row, is at place(r +
  // 1).
  Place place(std::uint64_t r) const { return places_[r]; }
  // Sequences in training order, before sample shuffling.
  std::span<const std::int32_t> documents() const { return documents_; }

 private:
  void lay_out(const MegatronPart& part, std::int64_t seq_len);

  std::vector<std::int32_t> documents_;  // the document index
  std::vector<Place> places_;            // the sample index, [samples + 1]
  std::vector<std::uint32_t> shuffle_;   // the shuffle index, [samples]
};

}  // namespace trireme::data
