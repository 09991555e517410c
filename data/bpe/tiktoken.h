#pragma once
#include <string>
#include <string_view>

#include "data/bpe/tokenizer_json.h"

namespace trireme::data {

// Whether `content` begins as a tiktoken file: a line "base64 rank".
bool is_tiktoken(std::string_view content);

// Whether `pattern` is that of an encoding below. None matches on from another character into a
// space.
bool is_tiktoken_pattern(std::string_view pattern);

// A tiktoken file, whose ids are the ranks, with the pattern and special tokens of its encoding:
// that of `tiktoken.json` in its folder ({"encoding": "llama3", "cl100k_base" or "o200k_base"}),
// otherwise that of OpenAI whose number of ranks it has, otherwise Llama 3's (256 special tokens
// after the ranks, as in Meta's reference loader). Special tokens are matched in the text, as with
// allowed_special="all". Throws DataError beginning with `path` if the file is damaged.
TokenizerJson parse_tiktoken(const std::string& path, std::string_view content);

}  // namespace trireme::data
