#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/bpe/json_section.h"
#include "data/bpe/replacement.h"

namespace trireme::data {

struct DecoderStep {
  enum class Kind { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace };
  Kind kind = Kind::kFuse;
  PatternSpec pattern{};   // of kReplace
  std::string content{};   // of kReplace, kStrip; the mark of kMetaspace
  std::size_t most = 0;    // of kStrip: characters removed at the front
  bool is_prefix = false;  // of kMetaspace: marks of the first token are dropped
};

// Steps of the "decoder" section. Throws DataError naming what is not implemented.
std::vector<DecoderStep> parse_decoder(const JsonSection& section);

// Turns the tokens of a character-level BPE into text, as the decoder of the tokenizers library.
// Thread-safe.
class Decoder {
 public:
  explicit Decoder(const std::vector<DecoderStep>& steps);
  std::string decode(std::vector<std::string> tokens) const;

 private:
  struct Step {
    DecoderStep spec;
    std::optional<Replacement> replacement;
  };
  std::vector<Step> steps_;
};

}  // namespace trireme::data
