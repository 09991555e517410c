#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::data {

struct InputFile {
  std::filesystem::path path;
  enum class Compression { kNone, kGzip, kZstd };
  std::uint64_t bytes = 0;                       // size on disk
  bool json_lines = false;                       // otherwise text, one document per file
  Compression compression = Compression::kNone;  // detected by magic number
  std::string kind{};                            // file extension inside .gz and .zst, for display
  bool is_pure_utf8 = true;                      // in the samples that were read
};

// How to treat files that judge_input recognizes as neither text nor JSON lines.
struct InputRules {
  enum class Others { kRefuse, kAsText, kAsJsonLines, kSkip };
  Others others = Others::kRefuse;
};

struct Inputs {
  std::vector<InputFile> files;
  std::vector<std::filesystem::path> skipped;
};

// Expands command-line arguments to files, in order: a file; a folder (all files, recursively,
// sorted by path, except names that begin with a dot); @LIST (one argument per line; empty lines
// are ignored). Throws DataError for missing files, empty lists and folders, and for unrecognized
// files if `rules` rejects them.
Inputs find_inputs(const std::vector<std::string>& words, const InputRules& rules = {});

}  // namespace trireme::data
