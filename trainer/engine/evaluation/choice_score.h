#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/engine/evaluation/question.h"

namespace trireme {

// How many questions a model has answered rightly. Its answer is the ending of the highest
// log-likelihood given the context, the first of equals: lm-evaluation-harness' "acc". Normalized,
// the log-likelihood is divided by the ending's bytes of UTF-8, without what stands between it and
// the context: its "acc_norm", which counts characters instead and so differs where a text is not
// ASCII. A question with a log-likelihood that is not finite has no answer, and so a wrong one.
struct ChoiceScore {
  struct Rate {
    double accuracy = 0;
    double standard_error = 0;  // of a mean of n: sqrt(p (1 - p) / (n - 1))
  };
  std::int64_t questions = 0;
  Rate plain, normalised;
};

// The log-likelihoods [choices] in nats, of all endings of the first question, then of the second.
ChoiceScore score(const std::vector<Question>& questions, std::span<const double> log_likelihoods);

}  // namespace trireme
