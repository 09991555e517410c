#pragma once
#include <nlohmann/json.hpp>

#include "data/sentencepiece_tokenizer.h"

namespace trireme {

// tokenizer.json of a SentencePiece model without normalization, with or without a dummy prefix.
// Needed since transformers' Llama class builds the same kind of tokenizer from every model file.
nlohmann::ordered_json sentencepiece_json(const data::SentencePieceTokenizer& tokenizer);

}  // namespace trireme
