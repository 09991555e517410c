// A .jsonl file: the first byte says how it is compressed, 'g' by gzip, 'z' by zstd, else not at
// all. Whatever the bytes, they are refused with a DataError, or the lines come one after the
// other, and the same from a place between them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_reader.h"
#include "data/tokenize.h"
#include "model/base/error.h"

namespace {

using trireme::data::InputFile;
using trireme::data::ReaderPosition;
using trireme::data::TextBatch;
using trireme::data::TextReader;

constexpr std::size_t kMostBytes = 4u << 20;  // of what a few bytes may decompress to

void expect(bool holds) {
  if (!holds) std::abort();
}

std::size_t nowhere(std::string_view) {
  return 0;
}

struct Read {
  std::vector<std::string> lines;
  ReaderPosition after_first{};  // batch
  std::size_t in_first = 0;      // lines
};

Read read_lines(const std::vector<InputFile>& files, ReaderPosition from) {
  TextReader reader(files, nowhere, from);
  Read read;
  TextBatch batch;
  std::uint64_t line = from.line;
  std::size_t bytes = 0;
  for (bool is_first = true; bytes < kMostBytes && reader.next(batch); is_first = false) {
    for (const auto& piece : batch.pieces) {
      expect(piece.line > line && piece.begin < piece.end && piece.end <= batch.text.size());
      line = piece.line;
      const auto text = std::string_view(batch.text).substr(piece.begin, piece.end - piece.begin);
      expect(text.find('\n') == std::string_view::npos);
      read.lines.emplace_back(text);
    }
    bytes += batch.text.size();
    if (!is_first) continue;
    read.after_first = batch.after;
    read.in_first = read.lines.size();
  }
  return read;
}

// A file in memory with these bytes, by a path of its own.
std::string path_of(std::span<const std::uint8_t> bytes) {
  static const int kFile = ::memfd_create("fuzz.jsonl", 0);
  expect(kFile >= 0 && ::ftruncate(kFile, 0) == 0);
  expect(::pwrite(kFile, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(kFile);
}

InputFile::Compression compression_of(std::uint8_t letter) {
  if (letter == 'g') return InputFile::Compression::kGzip;
  return letter == 'z' ? InputFile::Compression::kZstd : InputFile::Compression::kNone;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::vector<InputFile> files{{.path = path_of(std::span(data, size).subspan(1)),
                                      .bytes = size - 1,
                                      .json_lines = true,
                                      .compression = compression_of(data[0])}};
  try {
    const Read whole = read_lines(files, {});
    const Read rest = read_lines(files, whole.after_first);
    const auto begin = whole.lines.begin() + static_cast<std::ptrdiff_t>(whole.in_first);
    const auto count = std::min<std::ptrdiff_t>(whole.lines.end() - begin, std::ssize(rest.lines));
    expect(std::equal(begin, begin + count, rest.lines.begin()));
    for (const std::string& line : whole.lines) {
      static_cast<void>(trireme::data::text_of_json(line, "text", "line 1"));
    }
  } catch (const trireme::DataError& error) {
    expect(!std::string(error.what()).empty());
  }
  return 0;
}
