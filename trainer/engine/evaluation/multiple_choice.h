#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/engine/evaluation/choice_rows.h"
#include "trainer/engine/evaluation/choice_score.h"

namespace trireme {

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
