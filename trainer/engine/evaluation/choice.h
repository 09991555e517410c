#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "trainer/engine/evaluation/question.h"

namespace trireme {

// A question's context with one of its endings, as a model reads it.
struct Choice {
  std::vector<std::int32_t> ids;
  std::size_t scored = 0;  // the first of the ids that the ending is scored by; at least 1
};

// A question's choices, in the order of its endings. Context and ending are one text, with a space
// between them where neither has white space there, encoded in one go; scored are the ids from the
// first on that the context alone has not got. White space at the context's end goes to the
// ending. This is how lm-evaluation-harness encodes a pair, but that it counts the context's ids
// where a token of the text spans both. A context without ids is an end of document. What is
// longer than seq_len + 1 ids loses the context's first. Throws DataError for an ending that has
// no ids or too many.
std::vector<Choice> choices_of(const Question& question, const data::Tokenizer& tokenizer,
                               std::int64_t seq_len);

}  // namespace trireme
