#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "trainer/engine/evaluation/choice.h"
#include "trainer/engine/evaluation/question.h"

namespace trireme {

// Accuracy of a model on multiple-choice questions. `plain`: its answer is the ending with the
// highest log-likelihood given the context (the first one on a tie), as "acc" of
// lm-evaluation-harness. `normalized`: log-likelihoods are divided by the length of the ending in
// UTF-8 bytes, without the white space before it, as "acc_norm", which counts characters instead
// and therefore differs for text that is not ASCII. A question with a non-finite log-likelihood
// counts as answered wrongly.
struct ChoiceScore {
  struct Rate {
    double accuracy = 0;
    double standard_error = 0;  // sqrt(p (1 - p) / (n - 1)) for n questions
  };
  std::int64_t questions = 0;
  Rate plain, normalized;
};

// `log_likelihoods` [choices] in nats: all endings of the first question, then of the second, ...
ChoiceScore score(const std::vector<Question>& questions, std::span<const double> log_likelihoods);

// A file of questions, encoded for a model.
struct MultipleChoice {
  std::string name;  // of the file, without its extension
  std::vector<Question> questions;
  ChoiceRows rows;
};

// Throws DataError naming the file and the question. `documents`: see ChoiceRows.
MultipleChoice open_multiple_choice(const std::filesystem::path& jsonl,
                                    const data::Tokenizer& tokenizer, std::int64_t seq_len,
                                    bool documents);

}  // namespace trireme
