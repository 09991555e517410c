#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "data/token_type.h"

namespace trireme::data {

// A dataset as one stream of tokens, cut into sequences, which group into documents; a
// document may hold several sequences, or no token at all. What the formats have in common: each
// checks every field of its files on opening and throws DataError naming the file and the fix;
// after that no access can leave them. Read-only, and safe to use from any thread.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  virtual const char* format() const = 0;  // "Megatron", "llm.c", ...
  virtual TokenType type() const = 0;
  virtual std::int64_t tokens() const = 0;
  virtual std::int64_t documents() const = 0;
  virtual std::int64_t document_begin(std::int64_t document) const = 0;  // of documents(): tokens()
  // Where a format has no sequences, each document is one.
  virtual std::int64_t sequences() const { return documents(); }
  virtual std::int64_t sequence_begin(std::int64_t sequence) const {  // of sequences(): tokens()
    return document_begin(sequence);
  }

  // Ids wider than 32 bits are cut: check_ids first.
  virtual void read(std::int64_t first, std::span<std::int32_t> into) const = 0;
  virtual std::int64_t token(std::int64_t at) const = 0;
  // The first place in [first, last) whose id is negative or not below vocab_size.
  // One pass at the speed of memory.
  virtual std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                                   std::int64_t last) const = 0;

  // Of the files that say where documents are, and of those that hold tokens.
  virtual std::uint64_t index_bytes() const = 0;
  virtual std::uint64_t token_bytes() const = 0;
  // Changes with sizes, header and blocks sampled over all files; cheap at any size.
  virtual std::uint64_t sampled_hash() const = 0;

  std::int64_t document_size(std::int64_t document) const {
    return document_begin(document + 1) - document_begin(document);
  }
  std::int64_t sequence_size(std::int64_t sequence) const {
    return sequence_begin(sequence + 1) - sequence_begin(sequence);
  }
  // The document that holds the token at this place of the stream.
  std::int64_t document_at(std::int64_t token) const;
  // Throws DataError naming document, offset and id where find_outside finds one.
  void check_ids(std::int64_t vocab_size, std::int64_t first, std::int64_t last) const;

  // As the user names it, and the file with its tokens: for messages.
  const std::string& name() const { return name_; }
  const std::string& token_file() const { return token_file_; }

 protected:
  TokenStream(std::string name, std::string token_file)
      : name_(std::move(name)), token_file_(std::move(token_file)) {}

 private:
  std::string name_, token_file_;
};

}  // namespace trireme::data
