#include "trainer/telemetry/cut_lines.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme {
namespace {

// The part of a file to keep.
struct KeptLines {
  LinesCut cut;
  std::string_view prefix;  // kept lines before the first refused one
  std::string after;        // kept lines after it
};

KeptLines kept_of(std::string_view text, const std::function<bool(std::string_view line)>& keep) {
  KeptLines kept;
  bool hole = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    if (newline == std::string_view::npos) {
      kept.cut.torn = true;
      break;
    }
    const std::string_view line = text.substr(begin, newline - begin);
    begin = newline + 1;
    if (!keep(line)) {
      ++kept.cut.refused;
      hole = true;
      continue;
    }
    ++kept.cut.kept;
    if (hole) {
      kept.after.append(line).push_back('\n');
    } else {
      kept.prefix = text.substr(0, begin);
    }
  }
  return kept;
}

// Whether the file exists; refuses symbolic links.
bool is_there(const std::filesystem::path& path) {
  std::error_code why;
  if (std::filesystem::is_symlink(path, why)) throw_file_error("write", path, ELOOP);
  return std::filesystem::exists(path, why);
}

std::string_view text_of(const MappedFile& mapped) {
  return {reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()};
}

}  // namespace

LinesCut cut_lines(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line)>& keep) {
  if (!is_there(path)) return {};
  const MappedFile mapped(path);
  const KeptLines kept = kept_of(text_of(mapped), keep);
  if (!kept.after.empty()) {
    replace_text(path, std::string(kept.prefix) + kept.after);
  } else if (kept.prefix.size() < text_of(mapped).size()) {
    File::open_write(path).truncate(kept.prefix.size());
  }
  return kept.cut;
}

LinesCut take_over_lines(const std::filesystem::path& path,
                         const std::function<bool(std::string_view line)>& keep) {
  if (!is_there(path)) return {};
  const MappedFile mapped(path);
  const KeptLines kept = kept_of(text_of(mapped), keep);
  try {
    kept.after.empty() ? replace_text(path, kept.prefix)
                       : replace_text(path, std::string(kept.prefix) + kept.after);
  } catch (const EnvironmentError&) {
    if (!kept.after.empty()) throw;
    File::open_write(path).truncate(kept.prefix.size());
  }
  return kept.cut;
}

bool is_whole(std::string_view line, std::string_view start) {
  return line.starts_with(start) && line.ends_with('}') && line.find('\0') == line.npos;
}

}  // namespace trireme
