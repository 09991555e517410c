#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: always the most likely
  std::int64_t top_k = 0;  // sample from the k most likely; 0: all
  std::uint64_t seed = 0;
};

// Draws token number `position` of an answer from its logits. A pure function: the
// random number is keyed by the seed and the position.
std::int32_t sample(const std::vector<float>& logits, const Sampling& sampling,
                    std::int64_t position);

// The ids of a prompt; for an empty one, the end of the previous document.
std::vector<std::int32_t> prompt_ids(const data::Tokenizer& tokenizer, const std::string& text);

// A text to continue.
struct Generation {
  std::vector<std::int32_t> prompt;  // ids, at least one
  std::int64_t max_tokens = 0;       // to add, at least one
  Sampling sampling;
  std::vector<std::int64_t> stop_ids = {};  // in addition to the tokenizer's end of document
};

// Decodes the next tokens of the sequence and returns the logits after the last.
using NextLogits = std::function<std::vector<float>(std::span<const std::int32_t> ids)>;

// The ids that follow the prompt, up to a stop id. `on_token` sees the answer after each.
std::vector<std::int32_t> generate(
    const Generation& generation, const data::Tokenizer& tokenizer, const NextLogits& next_logits,
    const std::function<void(std::span<const std::int32_t> answer)>& on_token = {});

}  // namespace trireme
