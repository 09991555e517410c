#pragma once
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"

namespace trireme {

// The tokenizer_config.json with which transformers gives the ids that a tokenizer of a file gives
// here; `given` is the one that lies beside that file, or an empty object. It stays as it is, but
// for a tokenizer.json that no class is named for.
nlohmann::ordered_json tokenizer_config_json(const data::Tokenizer& tokenizer,
                                             nlohmann::ordered_json given, std::int64_t longest);

}  // namespace trireme
