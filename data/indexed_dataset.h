#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/token_type.h"
#include "model/base/file.h"

namespace trireme::data {

// PREFIX.idx, PREFIX.bin, PREFIX.json: the prefix may itself hold dots.
std::filesystem::path index_path(const std::filesystem::path& prefix);
std::filesystem::path tokens_path(const std::filesystem::path& prefix);
std::filesystem::path sidecar_path(const std::filesystem::path& prefix);

// A Megatron-LM indexed dataset, read where it lies: both files are mapped and
// nothing is copied, so memory does not grow with the data. Every field is checked on
// opening, after which no access can leave the files. Seen as one stream of
// tokens, cut into sequences, which group into documents; a document may hold
// several sequences, or no token at all. Throws DataError naming the file and the fix.
class IndexedDataset {
 public:
  explicit IndexedDataset(const std::filesystem::path& prefix);

  // Over images in memory, which must outlive the dataset; `name` stands in messages.
  IndexedDataset(std::span<const std::byte> index, std::span<const std::byte> tokens,
                 std::string name);

  TokenType type() const { return type_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::uint64_t index_bytes() const { return index_.size(); }
  std::uint64_t token_bytes() const { return stream_.size(); }

  std::int64_t sequence_begin(std::int64_t sequence) const;  // in tokens; of sequences(): tokens()
  std::int64_t sequence_size(std::int64_t sequence) const;
  std::int64_t document_first_sequence(std::int64_t document) const;
  std::int64_t document_begin(std::int64_t document) const;  // of documents(): tokens()
  std::int64_t document_size(std::int64_t document) const;
  // The document that holds the token at this place of the stream.
  std::int64_t document_at(std::int64_t token) const;

  // Ids wider than 32 bits are cut: check() first.
  void read(std::int64_t first, std::span<std::int32_t> into) const;
  std::int64_t token(std::int64_t at) const;

  // The first place in [first, last) whose id is negative or not below vocab_size.
  // One pass at the speed of memory.
  std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                           std::int64_t last) const;
  // Throws DataError naming document, offset and id when there is one.
  void check_ids(std::int64_t vocab_size, std::int64_t first, std::int64_t last) const;

  // Changes with sizes, header and blocks sampled over both files; cheap at any size.
  std::uint64_t sampled_hash() const;

  const std::string& name() const { return name_; }

 private:
  void open();
  void check_header();
  void check_arrays() const;

  MappedFile index_file_, token_file_;
  std::span<const std::byte> index_, stream_;
  std::string name_;
  TokenType type_ = TokenType::kU16;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  const std::byte* lengths_ = nullptr;       // [sequences] int32; unaligned, like all below
  const std::byte* pointers_ = nullptr;      // [sequences] int64, bytes
  const std::byte* documents_at_ = nullptr;  // [documents + 1] int64, sequences
};

}  // namespace trireme::data
