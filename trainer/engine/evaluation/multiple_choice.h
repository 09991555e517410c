#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/engine/evaluation/choice_rows.h"
#include "trainer/engine/evaluation/choice_score.h"

namespace trireme {

// A file of questions, ready to be answered by a model.
struct MultipleChoice {
  std::string name;  // of the file, without its ending
  std::vector<Question> questions;
  ChoiceRows rows;
};

// Throws DataError with the file and the question.
MultipleChoice open_multiple_choice(const std::filesystem::path& jsonl,
                                    const data::Tokenizer& tokenizer, std::int64_t seq_len,
                                    bool documents);

}  // namespace trireme
