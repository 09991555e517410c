#pragma once
#include <cstdint>
#include <string>

#include "data/input_files.h"

namespace trireme::data {

// Type of an input file, by its name and samples of its (decompressed) contents.
struct InputKind {
  std::string name;          // lowercase extension inside .gz and .zst; may be empty
  bool json_lines = false;   // otherwise text
  bool is_pure_utf8 = true;  // in the samples that were read
  std::string fault;         // why it is neither text nor JSON lines; empty: it is
};

// Text: .txt .text .md .markdown .rst .tex .raw .tokens, a numeric extension, or none. JSON lines:
// .jsonl .ndjson, and .json with one object per line. Both must have no NUL bytes and be UTF-8
// except for a few bytes. Throws DataError if compressed data cannot be read.
InputKind judge_input(const InputFile& file);

}  // namespace trireme::data
