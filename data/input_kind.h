#pragma once
#include <cstdint>
#include <string>

#include "data/input_files.h"

namespace trireme::data {

// What an input file is, by its name and samples of its (decompressed) content.
struct InputKind {
  std::string name;          // the extension inside .gz and .zst, in lower case; may be empty
  bool json_lines = false;   // JSON lines, else text
  bool is_pure_utf8 = true;  // as far as was read
  std::string fault;         // why it is not known as text or JSON lines; empty: it is
};

// Text: .txt .text .md .markdown .rst .tex .raw .tokens, a number or no extension at all. JSON
// lines: .jsonl .ndjson, and a .json of them. Either has no NUL bytes and is UTF-8 but for a few
// bytes. Throws DataError where compressed data cannot be read.
InputKind judge_input(const InputFile& file);

}  // namespace trireme::data
