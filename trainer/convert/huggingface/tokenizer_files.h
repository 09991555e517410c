#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer.h"

namespace trireme {

// tokenizer_config.json with which transformers produces the same ids as `tokenizer`. `given` is
// the file next to the tokenizer file, or an empty object; it is kept unchanged, except that a
// missing tokenizer_class is added. `longest` is model_max_length.
nlohmann::ordered_json tokenizer_config_json(const data::Tokenizer& tokenizer,
                                             nlohmann::ordered_json given, std::int64_t longest);

// Whether transformers needs a tokenizer.json (sentencepiece_json) for the ids of this model, as
// its Llama class reads .model files as BPE without a dummy prefix.
bool needs_tokenizer_json(const data::SentencePieceTokenizer& model);

// Writes tokenizer "bytes" for Hugging Face (tokenizer.json and tokenizer_config.json in `folder`)
// as byte-level BPE without merges and with the same ids. `longest` is model_max_length.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t end_of_document,
                          std::int64_t longest);

// Whether `tokenizer` is of a tiktoken file, which transformers reads as tiktoken_json alone.
bool is_tiktoken(const data::Tokenizer& tokenizer);

// tokenizer.json of a tiktoken file, as byte-level BPE. Ids that the file leaves out become added
// tokens "<|unused_ID|>".
nlohmann::ordered_json tiktoken_json(const data::Tokenizer& tokenizer);

// tokenizer.json of a SentencePiece model without normalization, with or without a dummy prefix.
// Needed since transformers' Llama class builds the same kind of tokenizer from every model file.
nlohmann::ordered_json sentencepiece_json(const data::SentencePieceTokenizer& tokenizer);

}  // namespace trireme
