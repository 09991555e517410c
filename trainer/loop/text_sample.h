#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "trainer/engine/decoder.h"
#include "trainer/loop/sampler.h"

namespace trireme {

struct TextSample {
  std::vector<std::int32_t> prompt;  // ids, at least one
  std::int64_t most = 0;             // ids to add
  Sampling how;
};

// The ids of a text to continue; of none, the end of the document before.
std::vector<std::int32_t> prompt_ids(const data::Tokenizer& tokenizer, const std::string& text);

// The text that follows the prompt, until its document's end. For those who look on: the same
// sample of the same weights, but that a layout's last bits may choose another token.
std::string continued(Decoder& decoder, const data::Tokenizer& tokenizer, const TextSample& sample);

}  // namespace trireme
