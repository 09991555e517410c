#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A text and what may follow it, of which one does.
struct Question {
  std::string context;
  std::vector<std::string> endings;  // two or more, none empty
  std::size_t label = 0;             // index of the right one
};

// One line of a HellaSwag-style file: an object of ctx or context, endings, and label (a number,
// or one in quotes). The keys that HellaSwag's files have besides (ind, activity_label, ctx_a,
// ctx_b, split, split_type, source_id) say nothing more and are passed over; any other key is
// refused, as are wrong types. Throws DataError.
Question parse_question(std::string_view line);

// Every line that is not blank. Throws DataError with the file and the line.
std::vector<Question> read_questions(const std::filesystem::path& jsonl);

}  // namespace trireme
