#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "trainer/engine/evaluation/question.h"

namespace trireme {

// A question's context followed by one of its endings, as token ids.
struct Choice {
  std::vector<std::int32_t> ids;
  std::size_t scored = 0;  // index of the first scored id, where the ending begins; at least 1
};

// A question's choices, in the order of its endings. Context and ending are encoded as one text,
// with a space between them if neither has white space there; white space at the end of the context
// counts as part of the ending. The scored ids begin at the first one that differs from the
// encoding of the context alone. This is the encoding of lm-evaluation-harness, except that the
// harness skips as many ids as the context alone has, also if one token spans the end of the
// context and the beginning of the ending. An empty context is replaced by the end-of-document
// token. A choice of more than seq_len + 1 ids is shortened at the beginning of its context. Throws
// DataError for an ending that has no ids or too many.
std::vector<Choice> choices_of(const Question& question, const data::Tokenizer& tokenizer,
                               std::int64_t seq_len);

}  // namespace trireme
