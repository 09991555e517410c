#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A multiple-choice question: a text and possible continuations, one of which is right.
struct Question {
  std::string context;
  std::vector<std::string> endings;  // two or more, none empty
  std::size_t label = 0;             // index of the right one
};

// Parses one line of a HellaSwag-style file: an object with ctx or context, endings, and label (a
// number, or a number as text). Other keys of HellaSwag's own files (ind, activity_label, ctx_a,
// ctx_b, split, split_type, source_id) are ignored. Throws DataError for any other key and for
// wrong types.
Question parse_question(std::string_view line);

// The questions of all lines that are not blank. Throws DataError naming the file and the line.
std::vector<Question> read_questions(const std::filesystem::path& jsonl);

}  // namespace trireme
