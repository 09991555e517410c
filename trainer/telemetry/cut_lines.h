#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace trireme {

// Statistics of cut_lines().
struct LinesCut {
  std::uint64_t kept = 0;
  std::uint64_t refused = 0;  // complete lines rejected by `keep`
  bool torn = false;          // the last line was incomplete: its writer was killed
};

// Keeps only the complete lines for which `keep` returns true; it receives them in order, without
// the newline. The change is atomic for readers: a rejected tail is truncated, anything else is
// rewritten to a new file that replaces the old one. A missing file counts as empty. Throws
// EnvironmentError with the path.
LinesCut cut_lines(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line)>& keep);

// The same for a file with a single writer: always replaces the file, so that a previous writer
// that still has it open cannot append to it (truncates it instead if the disk is full).
LinesCut take_over_lines(const std::filesystem::path& path,
                         const std::function<bool(std::string_view line)>& keep);

// Whether a line starts with `start`, ends as a JSON object and has no zero bytes, which a power
// loss leaves behind. A cheap test: the files of a run are scanned at every start, and parsing long
// ones takes seconds.
bool is_whole(std::string_view line, std::string_view start);

}  // namespace trireme
