#pragma once
#include <cstddef>
#include <filesystem>
#include <initializer_list>

#include "data/token_stream.h"
#include "model/base/file.h"

namespace trireme::data {

// A stream whose tokens are contiguous in memory, in one integer type, possibly unaligned.
// Subclasses provide the document boundaries.
class PackedTokens : public TokenStream {
 public:
  TokenType type() const final { return type_; }
  std::int64_t tokens() const final {
    return static_cast<std::int64_t>(packed_.size() / size_of(type_));
  }
  void read(std::int64_t first, std::span<std::int32_t> into) const final;
  std::int64_t token(std::int64_t at) const final;
  std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                           std::int64_t last) const final;
  std::uint64_t token_bytes() const final { return file_.size(); }

 protected:
  using TokenStream::TokenStream;
  // `file` is the content of the token file, `packed` its part with the tokens; both outlive the
  // stream. Throws DataError if the size is not a multiple of a token.
  void set_tokens(std::span<const std::byte> file, std::span<const std::byte> packed,
                  TokenType type);

 private:
  std::span<const std::byte> file_, packed_;
  TokenType type_ = TokenType::kU16;
};

// Throws DataError: "FILE: FAULT: FIX".
[[noreturn]] void refuse(const std::string& file, const std::string& fault, const std::string& fix);

// Throws DataError if the file is missing, naming the supported formats, or cannot be mapped.
MappedFile map_tokens(const std::filesystem::path& path);

// XXH3 of the sizes of all parts, and of blocks sampled from each.
std::uint64_t hash_of_samples(std::initializer_list<std::span<const std::byte>> parts);

}  // namespace trireme::data
