#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::data {

struct InputFile {
  std::filesystem::path path;
  enum class Compression { kNone, kGzip, kZstd };
  std::uint64_t bytes = 0;                       // as it lies on the disk
  bool json_lines = false;                       // else a text, which is one document
  Compression compression = Compression::kNone;  // by its first bytes
  std::string kind{};                            // its extension inside .gz and .zst, for lists
  bool is_pure_utf8 = true;                      // as far as samples show
};

// What to do with files that judge_input does not know as text or JSON lines.
struct InputRules {
  enum class Others { kRefuse, kAsText, kAsJsonLines, kSkip };
  Others others = Others::kRefuse;
};

struct Inputs {
  std::vector<InputFile> files;
  std::vector<std::filesystem::path> skipped;
};

// The files that the words of a command line mean, in the order of the words: a
// file; a folder (all its files, recursively, sorted by path; names that begin with a dot
// are left out); @LIST (one such word a line, empty lines left out). Throws DataError for
// what does not exist, an empty list or folder, and others where the rules refuse them.
Inputs find_inputs(const std::vector<std::string>& words, const InputRules& rules = {});

}  // namespace trireme::data
