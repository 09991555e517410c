#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/token_stream.h"

namespace trireme::data {

// PREFIX.json beside a dataset: what the dataset's own format cannot say. A dataset opens
// without it; one that is not ours or belongs to other files counts as absent.
struct Sidecar {
  std::string tokenizer{};       // "bytes", "sentencepiece", "tokenizer.json"
  std::string tokenizer_path{};  // empty for bytes; the file has it relative to itself
  std::string tokenizer_hash{};
  std::int64_t vocab_size = 0;
  std::int64_t end_of_document = -1;  // -1: documents end without a token of their own
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;  // of the original text, for bits per byte
  std::int64_t highest_id = -1;
};

// Adds the dataset's sizes and sampled hash, by which the sidecar is recognised, and the hashes of
// its whole files (verify_files), which are read for that.
void write_sidecar(const std::filesystem::path& prefix, const Sidecar& sidecar,
                   const TokenStream& dataset);

std::optional<Sidecar> read_sidecar(const std::filesystem::path& prefix,
                                    const TokenStream& dataset);

}  // namespace trireme::data
