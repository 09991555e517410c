#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// The sequences of one dataset that Megatron-LM's order is made of: sequence first + i has
// sizes[i] tokens.
struct MegatronPart {
  std::vector<std::int32_t> sizes;
  std::int64_t tokens = 0;
};

// The document, sample and shuffle index that Megatron-LM's GPTDataset builds, value for value
// (its "documents" are what we call sequences). One sample has seq_len + 1 tokens, the last of
// which the next one begins with, and goes through the ends of documents. Memory: 4 bytes a
// document and epoch, 12 a sample; building takes one pass over all of them.
class MegatronIndices {
 public:
  // For at least `samples` samples, of as many epochs as that takes. Throws DataError where the
  // part has too little for one, and ConfigError where a count leaves 32 bits.
  MegatronIndices(const MegatronPart& part, std::int64_t seq_len, std::uint64_t samples,
                  std::uint32_t seed);

  std::uint64_t samples() const { return shuffle_.size(); }
  std::uint64_t epochs() const { return epochs_; }
  // Row of the sample index that is the i-th to train on.
  std::uint64_t row(std::uint64_t i) const { return shuffle_[i]; }

  struct Place {
    std::int32_t at;      // in documents()
    std::int32_t offset;  // token of that document
  };
  // Of row r's first token; its last, which counts twice, is at place(r + 1).
  Place place(std::uint64_t r) const { return places_[r]; }
  // Sequences of the part, in the order they are trained on.
  std::span<const std::int32_t> documents() const { return documents_; }

 private:
  void lay_out(const MegatronPart& part, std::int64_t seq_len);

  std::uint64_t epochs_ = 1;
  std::vector<std::int32_t> documents_;  // the document index
  std::vector<Place> places_;            // the sample index, [samples + 1]
  std::vector<std::uint32_t> shuffle_;   // the shuffle index, [samples]
};

}  // namespace trireme::data
