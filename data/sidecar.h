#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/token_stream.h"

namespace trireme::data {

// XXH3 of the contents of a file. Throws EnvironmentError.
std::uint64_t file_hash(const std::filesystem::path& path);

// Compares the hashes of PREFIX.bin and PREFIX.idx with those that `trireme tokenize` stored in
// PREFIX.json. Returns the number of bytes read; nullopt if there are no stored hashes, as for
// datasets of other tools. Throws DataError naming the file that differs.
std::optional<std::uint64_t> verify_files(const std::filesystem::path& prefix);

// PREFIX.json, metadata that the dataset format cannot store. It is optional; a file that has
// another format or belongs to a different dataset is ignored.
struct Sidecar {
  std::string tokenizer{};       // "bytes", "sentencepiece", "tokenizer.json", "tiktoken"
  std::string tokenizer_path{};  // empty for bytes; in the file it is relative to the file
  std::string tokenizer_hash{};
  std::int64_t vocab_size = 0;
  std::int64_t end_of_document = -1;  // -1: documents have no end token
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;  // of the original text, for bits per byte
  std::int64_t highest_id = -1;
};

// Also stores the dataset's sizes and sampled hash, which identify the dataset, and the hashes of
// its files (verify_files), which are read for this.
void write_sidecar(const std::filesystem::path& prefix, const Sidecar& sidecar,
                   const TokenStream& dataset);

std::optional<Sidecar> read_sidecar(const std::filesystem::path& prefix,
                                    const TokenStream& dataset);

}  // namespace trireme::data
