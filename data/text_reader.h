#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/input_files.h"

namespace trireme::data {

// A range of input text from one file: a document, part of one, or a JSON line.
struct TextPiece {
  std::size_t file;        // input index
  std::uint64_t line;      // number of a JSON line, from 1; 0 for text
  std::size_t begin, end;  // in TextBatch::text
  bool continues;          // continues the previous piece
  bool ends_document;
};

// A position between pieces.
struct ReaderPosition {
  std::size_t file = 0;      // input index
  std::uint64_t offset = 0;  // in its decompressed bytes
  std::uint64_t line = 0;    // number of the last JSON line before it
  bool continues = false;    // inside a document
};

struct TextBatch {
  std::string text;
  std::vector<TextPiece> pieces;
  std::uint64_t bytes_read = 0;  // of the files, compressed
  ReaderPosition after{};
};

// Reads input files sequentially in batches of about `kBatchBytes`, so that memory use does not
// grow with the input. Only a text without split points and a JSON line of at most `kLongestLine`
// are read as a whole. Throws DataError naming the file.
class TextReader {
 public:
  static constexpr std::size_t kBatchBytes = 1u << 20;
  static constexpr std::size_t kLongestLine =
      1u << 30;  // longer: a decompression bomb, or not JSON lines

  // `last_cut` is Tokenizer::last_cut.
  TextReader(const std::vector<InputFile>& files,
             std::function<std::size_t(std::string_view)> last_cut, ReaderPosition from = {});

  // False at the end of the input.
  bool next(TextBatch& batch);

 private:
  void read_text_file(TextBatch& batch);
  void read_lines(TextBatch& batch);
  bool fill(TextBatch& batch, std::size_t bytes);
  void open_next();
  void close();
  ReaderPosition position() const;

  const std::vector<InputFile>& files_;
  std::function<std::size_t(std::string_view)> last_cut_;
  std::size_t at_file_ = 0;
  std::unique_ptr<ByteSource> source_;
  ReaderPosition from_;       // start of the first file
  std::uint64_t offset_ = 0;  // bytes read from the source
  std::uint64_t line_ = 0;
  bool continues_ = false;
  std::string rest_;  // read but not yet returned
};

}  // namespace trireme::data
