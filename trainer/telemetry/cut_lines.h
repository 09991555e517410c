#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace trireme {

// What cut_lines took out of a file.
struct LinesCut {
  std::uint64_t kept = 0;
  std::uint64_t refused = 0;  // whole lines that `keep` did not want
  bool torn = false;          // the last line had no end: the writer was killed in it
};

// Keeps only the whole lines for which `keep` holds (it sees them without the newline,
// in order). A reader sees the old file or the new, never a part: what is left out at
// the end is cut by one truncation, anything else by writing anew and renaming. A
// missing file is an empty one. Throws EnvironmentError naming the path.
LinesCut cut_lines(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line)>& keep);

// The same, of a file with one writer: what a writer before us still appends to the file it has
// open is lost, as another file takes the name (one that is cut in place where the disk is full).
LinesCut take_over_lines(const std::filesystem::path& path,
                         const std::function<bool(std::string_view line)>& keep);

// Whether a line begins so and ends as an object, with no byte of zero inside, as power that went
// leaves them. A run's files are looked through at each of its starts, and long ones take a second
// to parse.
bool is_whole(std::string_view line, std::string_view start);

}  // namespace trireme
