#include "trainer/engine/evaluation/multiple_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "model/base/error.h"

namespace trireme {
namespace {

bool is_right(std::span<const double> of_endings, std::size_t label) {
  if (!std::all_of(of_endings.begin(), of_endings.end(), [](double x) { return std::isfinite(x); }))
    return false;
  const auto best = std::max_element(of_endings.begin(), of_endings.end());
  return static_cast<std::size_t>(best - of_endings.begin()) == label;
}

ChoiceScore::Rate rate(std::int64_t right, std::int64_t questions) {
  const auto n = static_cast<double>(questions);
  const double p = static_cast<double>(right) / n;
  return {p, questions > 1 ? std::sqrt(p * (1 - p) / (n - 1)) : 0};
}

}  // namespace

ChoiceScore score(const std::vector<Question>& questions, std::span<const double> log_likelihoods) {
  std::int64_t plain = 0, normalized = 0;
  std::size_t at = 0;
  std::vector<double> per_byte;
  for (const Question& question : questions) {
    require(at + question.endings.size() <= log_likelihoods.size(), "log-likelihoods are missing");
    const auto own = log_likelihoods.subspan(at, question.endings.size());
    at += own.size();
    per_byte.clear();
    for (std::size_t i = 0; i < own.size(); ++i) {
      per_byte.push_back(own[i] / static_cast<double>(question.endings[i].size()));
    }
    plain += is_right(own, question.label) ? 1 : 0;
    normalized += is_right(per_byte, question.label) ? 1 : 0;
  }
  require(at == log_likelihoods.size() && !questions.empty(), "log-likelihoods of no question");
  const auto count = static_cast<std::int64_t>(questions.size());
  return {count, rate(plain, count), rate(normalized, count)};
}

MultipleChoice open_multiple_choice(const std::filesystem::path& jsonl,
                                    const data::Tokenizer& tokenizer, std::int64_t seq_len,
                                    bool documents) {
  std::vector<Question> questions = read_questions(jsonl);
  std::vector<Choice> all;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    try {
      std::vector<Choice> own = choices_of(questions[i], tokenizer, seq_len);
      std::move(own.begin(), own.end(), std::back_inserter(all));
    } catch (const DataError& error) {
      throw DataError(say(jsonl.string(), ", question ", i + 1, ": ", error.what()));
    }
  }
  return {jsonl.stem().string(), std::move(questions),
          ChoiceRows(std::move(all), seq_len, documents)};
}

}  // namespace trireme
