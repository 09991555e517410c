#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_files.h"
#include "model/base/file.h"

namespace trireme::data {

// A piece of input text as it lies in a file: a document, a part of one, or a JSON line.
struct TextPiece {
  std::size_t file;        // which input
  std::uint64_t line;      // of a JSON line, from 1; 0 for text
  std::size_t begin, end;  // in TextBatch::text
  bool continues;          // goes on where the piece before ended
  bool ends_document;
};

struct TextBatch {
  std::string text;
  std::vector<TextPiece> pieces;
  std::uint64_t bytes_read = 0;
};

// Reads input files one after the other in batches of about `kBatchBytes`, so that
// memory does not grow with the input. Only a text that may not be cut, and a JSON line,
// are read whole. Throws DataError naming the file.
class TextReader {
 public:
  static constexpr std::size_t kBatchBytes = 1u << 20;

  // `last_cut` as Tokenizer::last_cut.
  TextReader(const std::vector<InputFile>& files,
             std::function<std::size_t(std::string_view)> last_cut);

  // False at the end of the input.
  bool next(TextBatch& batch);

 private:
  void read_text_file(TextBatch& batch);
  void read_lines(TextBatch& batch);
  bool fill(TextBatch& batch, std::size_t bytes);
  void open_next();

  const std::vector<InputFile>& files_;
  std::function<std::size_t(std::string_view)> last_cut_;
  std::size_t at_file_ = 0;
  std::optional<File> file_;
  std::uint64_t offset_ = 0, size_ = 0;
  std::uint64_t line_ = 0;
  bool continues_ = false;
  std::string rest_;  // read, but not yet handed out
};

}  // namespace trireme::data
