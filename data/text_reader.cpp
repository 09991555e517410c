#include "data/text_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {

TextReader::TextReader(const std::vector<InputFile>& files,
                       std::function<std::size_t(std::string_view)> last_cut)
    : files_(files), last_cut_(std::move(last_cut)) {}

bool TextReader::next(TextBatch& batch) {
  batch.text.clear();
  batch.pieces.clear();
  batch.bytes_read = 0;
  while (at_file_ < files_.size() && batch.text.size() < kBatchBytes) {
    try {
      if (!file_) open_next();
      if (files_[at_file_].json_lines) {
        read_lines(batch);
      } else {
        read_text_file(batch);
      }
    } catch (const EnvironmentError& error) {
      throw DataError(error.what());
    }
  }
  return !batch.pieces.empty();
}

void TextReader::open_next() {
  file_ = File::open_read(files_[at_file_].path);
  size_ = file_->size();
  offset_ = 0;
  line_ = 0;
  continues_ = false;
  rest_.clear();
}

// Appends what was left over and up to `bytes` more; false when the file has ended.
bool TextReader::fill(TextBatch& batch, std::size_t bytes) {
  batch.text += std::exchange(rest_, {});
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size_ - offset_));
  const std::size_t before = batch.text.size();
  batch.text.resize(before + count);
  file_->read_at(offset_, std::as_writable_bytes(std::span(batch.text).subspan(before)));
  offset_ += count;
  batch.bytes_read += count;
  return offset_ < size_;
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
    // Doubling, so that a long text without a cut is not searched over and over.
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
  file_.reset();
  ++at_file_;
}

void TextReader::read_lines(TextBatch& batch) {
  std::size_t begin = batch.text.size();
  bool more = fill(batch, kBatchBytes);
  std::size_t stop = batch.text.rfind('\n');
  while (more && (stop == std::string::npos || stop < begin)) {
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
  file_.reset();
  ++at_file_;
}

}  // namespace trireme::data
