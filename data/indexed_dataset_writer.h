#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "data/token_type.h"
#include "model/base/file.h"

namespace trireme::data {

// How far the temporary files of a writer are whole and synced.
struct SavedTokens {
  std::int64_t tokens = 0, open_tokens = 0, documents = 0, highest_id = -1;
  std::uint64_t index_bytes = 0;
};

// Writes a Megatron-LM indexed dataset, document after document. Tokens stream to
// a temporary file; what stays in memory is 8 bytes a document. finish() syncs and
// renames, the index last: a dataset without its index does not exist. An older
// dataset of the same prefix is replaced; one that others have mapped stays theirs.
// A writer that is destroyed unfinished removes its temporary files; of a process that died they
// stay, and a writer goes on with them from what save() gave. One writer at a time has
// a prefix. Throws EnvironmentError (full disk, unwritable folder) and DataError (an id
// that the type cannot hold).
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(std::filesystem::path prefix, TokenType type, const SavedTokens& from = {});
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;
  ~IndexedDatasetWriter();

  void append(std::span<const std::int32_t> ids);  // to the open document
  void end_document();                             // without tokens: an empty document
  void finish();
  // Nothing while a document of several sequences, 2^31 tokens, is open.
  std::optional<SavedTokens> save();

  std::int64_t documents() const { return static_cast<std::int64_t>(sequences_of_.size()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t highest_id() const { return highest_; }  // -1 without tokens

 private:
  void take_up(const SavedTokens& from);
  void end_sequence();
  void flush();
  void write_index(File& file) const;

  std::filesystem::path prefix_, temporary_, new_index_;
  std::filesystem::path temporary_index_;  // lengths: a count and as many lengths a document
  TokenType type_;
  std::optional<File> file_, saved_index_;
  std::vector<std::byte> buffer_;
  std::vector<std::int32_t> lengths_;        // of the sequences
  std::vector<std::uint32_t> sequences_of_;  // sequences of each document
  std::int64_t open_tokens_ = 0;             // in the open sequence
  std::uint32_t open_sequences_ = 0;         // closed, of the open document
  std::int64_t tokens_ = 0;
  std::int64_t highest_ = -1;
  std::uint64_t index_bytes_ = 0;  // saved
  std::size_t saved_documents_ = 0, saved_sequences_ = 0;
};

}  // namespace trireme::data
