#include "data/text_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kStep = 32u << 10;

}  // namespace

TextReader::TextReader(const std::vector<InputFile>& files,
                       std::function<std::size_t(std::string_view)> last_cut, ReaderPosition from)
    : files_(files), last_cut_(std::move(last_cut)), at_file_(from.file), from_(from) {}

bool TextReader::next(TextBatch& batch) {
  batch.text.clear();
  batch.pieces.clear();
  batch.bytes_read = 0;
  while (at_file_ < files_.size() && batch.text.size() < kBatchBytes) {
    try {
      if (!source_) open_next();
      if (files_[at_file_].json_lines) {
        read_lines(batch);
      } else {
        read_text_file(batch);
      }
    } catch (const EnvironmentError& error) {
      throw DataError(error.what());
    }
  }
  batch.after = position();
  return !batch.pieces.empty();
}

ReaderPosition TextReader::position() const {
  if (!source_) return {.file = at_file_};
  return {
      .file = at_file_, .offset = offset_ - rest_.size(), .line = line_, .continues = continues_};
}

void TextReader::open_next() {
  source_ = open_source(files_[at_file_]);
  const ReaderPosition begin = std::exchange(from_, {});
  offset_ = 0;
  std::string skipped(std::min<std::uint64_t>(begin.offset, kBatchBytes), '\0');
  while (offset_ < begin.offset) {
    const auto count = std::min<std::uint64_t>(begin.offset - offset_, kBatchBytes);
    if (source_->read(std::span(skipped).first(count)) < count) {
      throw DataError(say(files_[at_file_].path.string(), ": was truncated while it was read"));
    }
    offset_ += count;
  }
  line_ = begin.line;
  continues_ = begin.continues;
  rest_.clear();
}

void TextReader::close() {
  source_.reset();
  ++at_file_;
}

// Appends the remainder and up to `bytes` more; false at the end of the file.
bool TextReader::fill(TextBatch& batch, std::size_t bytes) {
  batch.text += std::exchange(rest_, {});
  const std::uint64_t of_file = source_->file_bytes_read();
  bool more = true;
  // In steps, so that a small file does not need a large buffer.
  for (std::size_t step = 0; more && bytes > 0; bytes -= step) {
    const std::size_t before = batch.text.size();
    step = std::min(bytes, kStep);
    batch.text.resize(before + step);
    const std::size_t count = source_->read(std::span(batch.text).subspan(before));
    batch.text.resize(before + count);
    offset_ += count;
    more = count == step;
  }
  batch.bytes_read += source_->file_bytes_read() - of_file;
  return more;
}

void TextReader::read_text_file(TextBatch& batch) {
  const std::size_t begin = batch.text.size();
  bool more = fill(batch, kBatchBytes);
  std::size_t end = batch.text.size();
  while (more) {
    const std::size_t cut = last_cut_(std::string_view(batch.text).substr(begin));
    if (cut > 0) {
      end = begin + cut;
      break;
    }
    // Doubling, so that a long text without a split point is not searched repeatedly.
    more = fill(batch, batch.text.size() - begin);
    end = batch.text.size();
  }
  rest_ = batch.text.substr(end);
  batch.text.resize(end);
  batch.pieces.push_back({.file = at_file_,
                          .line = 0,
                          .begin = begin,
                          .end = end,
                          .continues = std::exchange(continues_, more),
                          .ends_document = !more});
  if (more) return;
  close();
}

void TextReader::read_lines(TextBatch& batch) {
  std::size_t begin = batch.text.size();
  bool more = fill(batch, kBatchBytes);
  std::size_t stop = batch.text.rfind('\n');
  while (more && (stop == std::string::npos || stop < begin)) {
    if (batch.text.size() - begin >= kLongestLine) {
      throw DataError(say(files_[at_file_].path.string(), ": line ", line_ + 1, " has more than ",
                          kLongestLine >> 30, " GiB; every line must be one JSON object"));
    }
    more = fill(batch, batch.text.size() - begin);
    stop = batch.text.rfind('\n');
  }
  if (more) {
    rest_ = batch.text.substr(stop + 1);
    batch.text.resize(stop + 1);
  }
  while (begin < batch.text.size()) {
    const std::size_t end = std::min(batch.text.find('\n', begin), batch.text.size());
    ++line_;
    const std::string_view line = std::string_view(batch.text).substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      batch.pieces.push_back({.file = at_file_,
                              .line = line_,
                              .begin = begin,
                              .end = end,
                              .continues = false,
                              .ends_document = true});
    }
    begin = end + 1;
  }
  if (more) return;
  close();
}

}  // namespace trireme::data
