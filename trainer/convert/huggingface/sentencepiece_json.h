#pragma once
#include <nlohmann/json.hpp>

#include "data/sentencepiece_tokenizer.h"

namespace trireme {

// The tokenizer.json of a SentencePiece model that takes text as it is, or with a space before it:
// the same pieces for transformers, whose class of Llama builds one kind of model from any.
nlohmann::ordered_json sentencepiece_json(const data::SentencePieceTokenizer& tokenizer);

}  // namespace trireme
