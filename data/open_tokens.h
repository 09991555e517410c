#pragma once
#include <filesystem>
#include <memory>

#include "data/token_stream.h"

namespace trireme::data {

// The dataset at `path`, in the format that its files say themselves:
//   PREFIX           of PREFIX.bin and PREFIX.idx  Megatron-LM's indexed dataset
//   FILE.ds          beside FILE.ds.index          datatrove's
//   FILE             any other                     llm.c's or LLM.Q's, see headed_shard.h
//   FOLDER/NAME*.bin with a * in the name: all those shards, in the order of their names, as one
// Throws DataError saying what is wrong and the fix.
std::unique_ptr<TokenStream> open_tokens(const std::filesystem::path& path);

}  // namespace trireme::data
