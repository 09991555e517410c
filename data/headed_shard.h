#pragma once
#include <string>

#include "data/packed_tokens.h"

namespace trireme::data {

// A token file of llm.c or LLM.Q: a header of 1024 bytes, then the tokens. Neither format has
// document boundaries, so the file is one document. The first bytes identify the format:
//   llm.c  int32 magic 20240520, version 1, number of tokens; uint16 ids
//          int32 magic 20240801, version 7, number of tokens; uint32 ids (Llama 3)
//   LLM.Q  "BIN.TOK\n", int32 version (1 or 2), bytes per token (4), number of tokens, vocabulary,
//          whether a loss mask follows the tokens (rejected: it would be ignored); int32 ids
class HeadedShard : public PackedTokens {
 public:
  explicit HeadedShard(const std::filesystem::path& path);
  // Reads a file in memory, which outlives the shard; `name` is used in messages.
  HeadedShard(std::span<const std::byte> image, const std::string& name);

  const char* format() const override { return format_; }
  std::int64_t documents() const override { return 1; }
  std::int64_t document_begin(std::int64_t document) const override {
    return document == 0 ? 0 : tokens();
  }
  std::uint64_t index_bytes() const override { return 0; }
  std::uint64_t sampled_hash() const override { return hash_of_samples({image_}); }

 private:
  void open();
  void open_llmc();
  void open_llmq();
  void take(std::int64_t tokens, TokenType type);

  MappedFile file_;
  std::span<const std::byte> image_;
  const char* format_ = "";
};

}  // namespace trireme::data
