#pragma once
#include <filesystem>
#include <memory>

#include "data/token_stream.h"

namespace trireme::data {

// Opens the dataset at `path`; the format is detected from the files:
//   PREFIX           of PREFIX.bin and PREFIX.idx  Megatron-LM indexed dataset
//   FILE.ds          with FILE.ds.index            datatrove
//   FILE             any other                     llm.c or LLM.Q, see headed_shard.h
//   FOLDER/NAME*.bin with a * in the name: all matching shards, sorted by name, as one dataset
// Throws DataError with the problem and its fix.
std::unique_ptr<TokenStream> open_tokens(const std::filesystem::path& path);

}  // namespace trireme::data
