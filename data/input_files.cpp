#include "data/input_files.h"

#include <algorithm>
#include <sstream>
#include <system_error>
#include <utility>

#include "data/input_kind.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestList = 8;  // @a may refer to @a

InputFile::Compression compression_of(const fs::path& path, std::uint64_t bytes) {
  std::string start(std::min<std::uint64_t>(bytes, 4), '\0');
  File::open_read(path).read_at(0, std::as_writable_bytes(std::span(start)));
  if (start.starts_with("\x1F\x8B")) return InputFile::Compression::kGzip;
  if (start == "\x28\xB5\x2F\xFD") return InputFile::Compression::kZstd;
  return InputFile::Compression::kNone;
}

struct Refused {
  fs::path path;
  std::string why;
};

struct Found {
  const InputRules& rules;
  Inputs inputs{};
  std::vector<Refused> refused{};
};

void add_file(const fs::path& path, Found& found) {
  using Others = InputRules::Others;
  try {
    InputFile file{.path = path, .bytes = File::open_read(path).size()};
    file.compression = compression_of(path, file.bytes);
    const InputKind kind = judge_input(file);
    file.kind = kind.name;
    file.is_pure_utf8 = kind.is_pure_utf8;
    file.json_lines = kind.json_lines;
    if (!kind.fault.empty()) {
      if (found.rules.others == Others::kSkip) return found.inputs.skipped.push_back(path);
      if (found.rules.others == Others::kRefuse) found.refused.push_back({path, kind.fault});
      file.json_lines = found.rules.others == Others::kAsJsonLines;
    }
    found.inputs.files.push_back(std::move(file));
  } catch (const EnvironmentError& error) {
    throw DataError(say(error.what(), "; remove it from the input or make it readable"));
  }
}

[[noreturn]] void refuse(const Found& found) {
  constexpr std::size_t kNamed = 3;
  const std::vector<Refused>& refused = found.refused;
  if (refused.size() == 1 && found.inputs.files.size() == 1) {
    throw DataError(
        say(refused[0].path.string(), ": ", refused[0].why, "; or read it as text with --as text"));
  }
  std::string text = say(refused.size(), " of ", found.inputs.files.size(),
                         " files are neither text nor JSON lines: ");
  for (std::size_t i = 0; i < std::min(kNamed, refused.size()); ++i) {
    text += say(i > 0 ? "; " : "", refused[i].path.string(), " ", refused[i].why);
  }
  if (refused.size() > kNamed) text += say("; and ", refused.size() - kNamed, " more");
  throw DataError(text +
                  ". Skip such files with --skip-others, or read them as text with --as text");
}

void add_folder(const fs::path& folder, Found& into) {
  std::vector<fs::path> found;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder);
         entry != fs::recursive_directory_iterator(); ++entry) {
      if (entry->path().filename().string().front() == '.') {
        if (entry->is_directory()) entry.disable_recursion_pending();
      } else if (entry->is_regular_file()) {
        found.push_back(entry->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(say("cannot list ", error.path1().string(), ": ", error.code().message()));
  }
  if (found.empty()) throw DataError(say("the folder ", folder.string(), " holds no files"));
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  for (const fs::path& path : found) add_file(path, into);
}

std::size_t seen(const Found& found) {
  return found.inputs.files.size() + found.inputs.skipped.size();
}

void add_word(const std::string& word, int depth, Found& into);

void add_list(const std::string& path, int depth, Found& into) {
  if (depth >= kDeepestList)
    throw DataError(say("@", path, ": lists of files are nested without end"));
  std::string text;
  try {
    text = read_text(path);
  } catch (const EnvironmentError& error) {
    throw DataError(say("@", path, ": ", error.what(), "; give a file with one path per line"));
  }
  const std::size_t before = seen(into);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) add_word(line, depth + 1, into);
  }
  if (seen(into) == before) throw DataError(say("@", path, ": names no files"));
}

void add_word(const std::string& word, int depth, Found& into) {
  if (word.size() > 1 && word.front() == '@') return add_list(word.substr(1), depth, into);
  std::error_code why;
  const fs::file_status status = fs::status(word, why);
  if (fs::is_directory(status)) return add_folder(word, into);
  if (!fs::exists(status)) throw DataError(say(word, ": there is no such file or folder"));
  if (!fs::is_regular_file(status)) {
    throw DataError(say(word, ": is not a regular file; write its text to a file first"));
  }
  add_file(word, into);
}

}  // namespace

Inputs find_inputs(const std::vector<std::string>& words, const InputRules& rules) {
  Found found{.rules = rules};
  for (const std::string& word : words) add_word(word, 0, found);
  if (!found.refused.empty()) refuse(found);
  if (found.inputs.files.empty()) {
    throw DataError(found.inputs.skipped.empty()
                        ? std::string("no input: give text files, .jsonl files, folders or @LIST")
                        : say("no input: --skip-others skips all of the ",
                              found.inputs.skipped.size(), " files, ",
                              found.inputs.skipped.front().string(), " the first"));
  }
  return std::move(found.inputs);
}

}  // namespace trireme::data
