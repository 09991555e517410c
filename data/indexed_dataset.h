#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/packed_tokens.h"
#include "model/base/file.h"

namespace trireme::data {

// PREFIX.idx, PREFIX.bin, PREFIX.json: the prefix may contain dots.
std::filesystem::path index_path(const std::filesystem::path& prefix);
std::filesystem::path tokens_path(const std::filesystem::path& prefix);
std::filesystem::path sidecar_path(const std::filesystem::path& prefix);

// A Megatron-LM indexed dataset. Both files are memory-mapped without copies, so memory use does
// not depend on their size.
class IndexedDataset : public PackedTokens {
 public:
  explicit IndexedDataset(const std::filesystem::path& prefix);

  // Reads files in memory, which outlive the dataset; `name` is used in messages.
  IndexedDataset(std::span<const std::byte> index, std::span<const std::byte> tokens,
                 const std::string& name);

  const char* format() const override { return "Megatron"; }
  std::int64_t sequences() const override { return sequences_; }
  std::int64_t documents() const override { return documents_; }
  std::int64_t sequence_begin(std::int64_t sequence) const override;
  std::int64_t document_first_sequence(std::int64_t document) const;
  std::int64_t document_begin(std::int64_t document) const override;
  std::uint64_t index_bytes() const override { return index_.size(); }
  std::uint64_t sampled_hash() const override { return hash_of_samples({index_, stream_}); }

 private:
  void open();
  void check_header();
  void check_arrays() const;

  MappedFile index_file_, token_file_;
  std::span<const std::byte> index_, stream_;
  std::int64_t sequences_ = 0, documents_ = 0;
  const std::byte* lengths_ = nullptr;       // [sequences] int32; unaligned, as are those below
  const std::byte* pointers_ = nullptr;      // [sequences] int64, byte offsets
  const std::byte* documents_at_ = nullptr;  // [documents + 1] int64, sequence indices
};

}  // namespace trireme::data
