#include "data/input_files.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <system_error>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestList = 8;  // @a naming @a would go on for ever

struct Form {
  std::string_view magic;
  InputFile::Compression compression;
  std::string_view undo{};  // the program that does, where we do not
};
constexpr auto kNotOurs = InputFile::Compression::kNone;
constexpr std::array kForms{
    Form{"\x1F\x8B", InputFile::Compression::kGzip},
    Form{"\x28\xB5\x2F\xFD", InputFile::Compression::kZstd},
    Form{"\xFD"
         "7zXZ",
         kNotOurs, "unxz"},
    Form{"BZh", kNotOurs, "bunzip2"},
    Form{"PK\x03\x04", kNotOurs, "unzip"},
};

InputFile::Compression compression_of(const fs::path& path, std::uint64_t bytes) {
  std::string start(std::min<std::uint64_t>(bytes, 8), '\0');
  File::open_read(path).read_at(0, std::as_writable_bytes(std::span(start)));
  for (const Form& form : kForms) {
    if (start.compare(0, form.magic.size(), form.magic) != 0) continue;
    if (form.undo.empty()) return form.compression;
    throw DataError(say(path.string(), ": is compressed, and neither with gzip nor zstd; ",
                        form.undo, " it first"));
  }
  return InputFile::Compression::kNone;
}

void add_file(const fs::path& path, std::vector<InputFile>& files) {
  try {
    const std::uint64_t bytes = File::open_read(path).size();
    const InputFile::Compression compression = compression_of(path, bytes);
    const bool packed = compression != InputFile::Compression::kNone;
    const std::string extension = (packed ? path.stem() : path).extension().string();
    files.push_back({.path = path,
                     .bytes = bytes,
                     .json_lines = extension == ".jsonl" || extension == ".ndjson",
                     .compression = compression});
  } catch (const EnvironmentError& error) {
    throw DataError(say(error.what(), "; leave it out or make it readable"));
  }
}

void add_folder(const fs::path& folder, std::vector<InputFile>& files) {
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
  for (const fs::path& path : found) add_file(path, files);
}

void add_word(const std::string& word, int depth, std::vector<InputFile>& files);

void add_list(const std::string& path, int depth, std::vector<InputFile>& files) {
  if (depth >= kDeepestList) throw DataError(say("@", path, ": lists name lists without end"));
  std::string text;
  try {
    text = read_text(path);
  } catch (const EnvironmentError& error) {
    throw DataError(say("@", path, ": ", error.what(), "; give a file with one path a line"));
  }
  const std::size_t before = files.size();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) add_word(line, depth + 1, files);
  }
  if (files.size() == before) throw DataError(say("@", path, ": names no files"));
}

void add_word(const std::string& word, int depth, std::vector<InputFile>& files) {
  if (word.size() > 1 && word.front() == '@') return add_list(word.substr(1), depth, files);
  std::error_code why;
  const fs::file_status status = fs::status(word, why);
  if (fs::is_directory(status)) return add_folder(word, files);
  if (!fs::exists(status)) throw DataError(say(word, ": there is no such file or folder"));
  if (!fs::is_regular_file(status)) {
    throw DataError(say(word, ": is no regular file; write its text to a file first"));
  }
  add_file(word, files);
}

}  // namespace

std::vector<InputFile> find_inputs(const std::vector<std::string>& words) {
  std::vector<InputFile> files;
  for (const std::string& word : words) add_word(word, 0, files);
  if (files.empty()) throw DataError("no input: name text files, .jsonl files, folders or @LIST");
  return files;
}

}  // namespace trireme::data
