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

// Extent of a writer's temporary files that is complete and synced.
struct SavedTokens {
  std::int64_t tokens = 0, open_tokens = 0, documents = 0, highest_id = -1;
  std::uint64_t index_bytes = 0;
};

// Writes a Megatron-LM indexed dataset, document by document. Tokens are streamed to a temporary
// file; memory use is 8 bytes per document. finish() syncs and renames, the index last: a dataset
// without its index does not exist. An existing dataset of the same prefix is replaced; processes
// that have mapped it keep the old files. The destructor of an unfinished writer removes its
// temporary files; those of a process that died remain, and a writer can resume from what save()
// returned. Only one writer may use a prefix at a time. Throws EnvironmentError (full disk,
// read-only folder) and DataError (an id that does not fit the type).
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(std::filesystem::path prefix, TokenType type, const SavedTokens& from = {});
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;
  ~IndexedDatasetWriter();

  void append(std::span<const std::int32_t> ids);  // to the current document
  void end_document();                             // without tokens: an empty document
  void finish();
  // Nullopt while a document of more than one sequence (2^31 tokens) is incomplete.
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
  std::filesystem::path temporary_index_;  // per document: a count, then that many lengths
  TokenType type_;
  std::optional<File> file_, saved_index_;
  std::vector<std::byte> buffer_;
  std::vector<std::int32_t> lengths_;        // of the sequences
  std::vector<std::uint32_t> sequences_of_;  // by document
  std::int64_t open_tokens_ = 0;             // in the current sequence
  std::uint32_t open_sequences_ = 0;         // completed sequences of the current document
  std::int64_t tokens_ = 0;
  std::int64_t highest_ = -1;
  std::uint64_t index_bytes_ = 0;  // saved
  std::size_t saved_documents_ = 0, saved_sequences_ = 0;
};

}  // namespace trireme::data
