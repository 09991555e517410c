#pragma once
#include <memory>
#include <vector>

#include "data/token_stream.h"

namespace trireme::data {

// Concatenation of several streams; documents are numbered consecutively.
class ShardList : public TokenStream {
 public:
  // At least one shard.
  ShardList(std::vector<std::unique_ptr<TokenStream>> shards, const std::string& name);

  const char* format() const override { return shards_.front()->format(); }
  TokenType type() const override { return shards_.front()->type(); }
  std::int64_t tokens() const override { return first_token_.back(); }
  std::int64_t documents() const override { return first_document_.back(); }
  std::int64_t document_begin(std::int64_t document) const override;
  void read(std::int64_t first, std::span<std::int32_t> into) const override;
  std::int64_t token(std::int64_t at) const override;
  std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                           std::int64_t last) const override;
  std::uint64_t index_bytes() const override;
  std::uint64_t token_bytes() const override;
  std::uint64_t sampled_hash() const override;

 private:
  std::vector<std::unique_ptr<TokenStream>> shards_;
  std::vector<std::int64_t> first_token_, first_document_;  // [shards + 1]
};

}  // namespace trireme::data
