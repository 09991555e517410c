#pragma once
#include <string>

#include "data/packed_tokens.h"

namespace trireme::data {

// A token file of datatrove, NAME.ds: ids of 2 or 4 bytes, without a header. NAME.ds.index has the
// end of every document in tokens, as uint64; the width of ids follows from the last one. A loss
// mask in NAME.ds.loss is rejected, since it would be ignored.
class DatatroveShard : public PackedTokens {
 public:
  explicit DatatroveShard(const std::filesystem::path& path);
  // Reads files in memory, which outlive the shard; `name` is used in messages.
  DatatroveShard(std::span<const std::byte> index, std::span<const std::byte> tokens,
                 const std::string& name);

  const char* format() const override { return "datatrove"; }
  std::int64_t documents() const override { return documents_; }
  std::int64_t document_begin(std::int64_t document) const override;
  std::uint64_t index_bytes() const override { return index_.size(); }
  std::uint64_t sampled_hash() const override { return hash_of_samples({index_, stream_}); }

 private:
  void open();

  MappedFile index_file_, token_file_;
  std::span<const std::byte> index_, stream_;
  std::int64_t documents_ = 0;
};

}  // namespace trireme::data
