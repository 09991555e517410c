#pragma once
#include <nlohmann/json.hpp>

#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer.h"

namespace trireme {

// The tokenizer_config.json with which transformers gives the ids that a tokenizer of a file gives
// here; `given` is the one that lies beside that file, or an empty object. It stays as it is, but
// for a tokenizer.json that no class is named for.
nlohmann::ordered_json tokenizer_config_json(const data::Tokenizer& tokenizer,
                                             nlohmann::ordered_json given, std::int64_t longest);

// Whether transformers gives this model's ids only by a tokenizer.json (sentencepiece_json): its
// class of Llama reads .model files as BPE without a prefix.
bool needs_tokenizer_json(const data::SentencePieceTokenizer& model);

}  // namespace trireme
