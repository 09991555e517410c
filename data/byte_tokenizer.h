#pragma once
#include "data/tokenizer.h"

namespace trireme::data {

// Ids 0 to 255 are bytes; 256 is the end of a document.
class ByteTokenizer : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::string path() const override { return ""; }
  std::string hash() const override { return "bytes-257"; }
  std::int64_t vocab_size() const override { return 257; }
  std::int32_t end_of_document() const override { return 256; }
  bool lossless() const override { return true; }
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::size_t last_cut(std::string_view text) const override { return text.size(); }
};

}  // namespace trireme::data
