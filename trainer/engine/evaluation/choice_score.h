#pragma once
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace trireme
