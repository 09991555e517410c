#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "data/sidecar.h"
#include "data/token_stream.h"

namespace trireme::data {

// A dataset of a blend and the range of its documents to use.
struct SourceSpec {
  std::filesystem::path prefix;  // as for open_tokens
  double weight = 1;             // share of the samples, relative to the other sources
  double first = 0, last = 1;    // document range, as fractions of their number
};

// An opened source. The tokens of its selected documents are contiguous in its stream. Throws
// ConfigError or DataError if it cannot be used for training.
class SourcePart {
 public:
  struct Needs {
    std::int64_t seq_len = 0;     // a sequence needs one more token
    std::int64_t vocab_size = 0;  // every token id must be below it (0: unchecked)
    bool by_sequence = false;     // count sequences as documents, as Megatron-LM does
  };
  SourcePart(SourceSpec spec, const Needs& needs);

  std::int64_t begin() const { return begin_; }  // first token in the stream
  std::int64_t tokens() const { return tokens_; }
  // The selected documents, or sequences: [first(), last()).
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  const SourceSpec& spec() const { return spec_; }
  const TokenStream& stream() const { return *stream_; }
  const std::optional<Sidecar>& sidecar() const { return sidecar_; }

 private:
  void choose_documents(const Needs& needs);
  void check_vocabulary(std::int64_t vocab_size) const;

  SourceSpec spec_;
  std::unique_ptr<TokenStream> stream_;
  std::optional<Sidecar> sidecar_;
  std::int64_t first_ = 0, last_ = 0;
  std::int64_t begin_ = 0, tokens_ = 0;
};

}  // namespace trireme::data
