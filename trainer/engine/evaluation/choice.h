#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/token_batch.h"
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

// Choices of different lengths packed into rows of seq_len tokens. With `documents` (attention is
// masked at document boundaries) a row holds as many choices as fit, each as a document; otherwise
// one. The rest of a row has no targets.
class ChoiceRows {
 public:
  // None of the choices has more than seq_len + 1 ids.
  ChoiceRows(std::vector<Choice> choices, std::int64_t seq_len, bool documents);

  std::int64_t rows() const { return rows_; }
  std::size_t choices() const { return choices_.size(); }

  // Fills the batch with the rows from `first` on; those beyond the last are empty.
  void fill(const data::TokenBatch& batch, std::int64_t first) const;

  // Adds the log-likelihoods of a batch filled from row `first` to those of the choices, in nats:
  // losses [sequences * seq_len], one per token; log_likelihoods [choices].
  void add(std::span<const double> losses, std::int64_t first,
           std::span<double> log_likelihoods) const;

 private:
  struct Place {
    std::int64_t row = 0, at = 0;
  };
  // The choices in rows [first, end).
  std::pair<std::size_t, std::size_t> inside(std::int64_t first, std::int64_t end) const;

  std::vector<Choice> choices_;
  std::int64_t seq_len_;
  bool documents_;
  std::vector<Place> places_;  // of the choices, row by row
  std::int64_t rows_ = 0;
};

}  // namespace trireme
