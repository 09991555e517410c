#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "data/token_type.h"

namespace trireme::data {

// A dataset as one stream of tokens, divided into sequences, which form documents; a document may
// have several sequences, or no tokens. All formats validate every field of their files on opening
// and throw DataError with the file and the fix; later accesses are always in bounds. Read-only and
// thread-safe.
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
  // In formats without sequences every document is one sequence.
  virtual std::int64_t sequences() const { return documents(); }
  virtual std::int64_t sequence_begin(std::int64_t sequence) const {  // of sequences(): tokens()
    return document_begin(sequence);
  }

  // Ids wider than 32 bits are truncated: call check_ids first.
  virtual void read(std::int64_t first, std::span<std::int32_t> into) const = 0;
  virtual std::int64_t token(std::int64_t at) const = 0;
  // The first position in [first, last) whose id is negative or not below vocab_size. One pass at
  // memory bandwidth.
  virtual std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                                   std::int64_t last) const = 0;

  // Size of the files with document boundaries, and of those with tokens.
  virtual std::uint64_t index_bytes() const = 0;
  virtual std::uint64_t token_bytes() const = 0;
  // Depends on sizes, header and blocks sampled over all files; cheap at any size.
  virtual std::uint64_t sampled_hash() const = 0;

  std::int64_t document_size(std::int64_t document) const {
    return document_begin(document + 1) - document_begin(document);
  }
  std::int64_t sequence_size(std::int64_t sequence) const {
    return sequence_begin(sequence + 1) - sequence_begin(sequence);
  }
  // The document that contains this token of the stream.
  std::int64_t document_at(std::int64_t token) const;
  // Throws DataError naming document, offset and id if find_outside finds one.
  void check_ids(std::int64_t vocab_size, std::int64_t first, std::int64_t last) const;

  // The name given by the user, and the token file; used in messages.
  const std::string& name() const { return name_; }
  const std::string& token_file() const { return token_file_; }

 protected:
  TokenStream(std::string name, std::string token_file)
      : name_(std::move(name)), token_file_(std::move(token_file)) {}

 private:
  std::string name_, token_file_;
};

}  // namespace trireme::data
