#include "trainer/telemetry/cut_lines.h"

#include <string>
#include <system_error>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme {
namespace {

void truncate(const std::filesystem::path& path, std::uint64_t size) {
  std::error_code why;
  std::filesystem::resize_file(path, size, why);
  if (why) throw EnvironmentError(say("cannot shorten ", path.string(), ": ", why.message()));
}

}  // namespace

LinesCut cut_lines(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line)>& keep) {
  LinesCut cut;
  std::error_code why;
  if (!std::filesystem::exists(path, why)) return cut;
  const MappedFile mapped(path);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()),
                              mapped.bytes().size());
  std::string rewritten;   // in use once a line inside was refused
  std::size_t prefix = 0;  // bytes of kept lines before the first refused one
  bool hole = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    if (newline == std::string_view::npos) {
      cut.torn = true;
      break;
    }
    const std::string_view line = text.substr(begin, newline - begin);
    begin = newline + 1;
    if (!keep(line)) {
      ++cut.refused;
      hole = true;
      continue;
    }
    ++cut.kept;
    if (hole) {
      rewritten.append(line).push_back('\n');
    } else {
      prefix = begin;
    }
  }
  if (!rewritten.empty()) {
    replace_text(path, std::string(text.substr(0, prefix)) + rewritten);
  } else if (prefix < text.size()) {
    truncate(path, prefix);
  }
  return cut;
}

bool is_whole(std::string_view line, std::string_view start) {
  return line.starts_with(start) && line.ends_with('}') && line.find('\0') == line.npos;
}

}  // namespace trireme
