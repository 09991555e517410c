#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::data {

struct InputFile {
  std::filesystem::path path;
  enum class Compression { kNone, kGzip, kZstd };
  std::uint64_t bytes = 0;  // as it lies on the disk
  bool json_lines = false;  // by its name: .jsonl or .ndjson, then .gz or .zst where compressed
  Compression compression = Compression::kNone;  // by its first bytes
};

// The text files that the words of a command line mean, in the order of the words: a
// file; a folder (all its files, recursively, sorted by path; names that begin with a dot
// are left out); @LIST (one such word a line, empty lines left out). Throws DataError for
// what does not exist, an empty list or folder, and other compressions.
std::vector<InputFile> find_inputs(const std::vector<std::string>& words);

}  // namespace trireme::data
