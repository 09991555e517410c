#include "trainer/engine/evaluation/multiple_choice.h"

#include <iterator>

#include "model/base/error.h"

namespace trireme {

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
