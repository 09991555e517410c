#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// Turns text into ids, keeping what speeds it up (a cache of words). For one thread.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`. `continues`: it goes on where the text of the call before
  // ended, at a place that Tokenizer::last_cut chose.
  virtual void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) = 0;
};

// Immutable, so any thread may use it. The empty text has no ids; ids do not include
// an end of document.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;  // "bytes", "sentencepiece", "tokenizer.json"
  virtual std::string path() const = 0;  // of its file; empty when it has none
  virtual std::string hash() const = 0;  // of the vocabulary: other ids have another hash
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t end_of_document() const = 0;  // -1: the vocabulary has none
  virtual bool lossless() const = 0;                 // decode(encode(text)) == text for every text

  // Special tokens that the file would put around a text and encode() does not; for a note.
  virtual std::string surroundings() const { return {}; }

  virtual std::unique_ptr<Encoder> encoder() const = 0;
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Ids beyond the vocabulary are DataErrors; end of document and other control ids
  // decode to nothing.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  // The last place in `text` where it may be cut so that the parts, encoded one after
  // the other, give the ids of the whole; 0 when there is none.
  virtual std::size_t last_cut(std::string_view text) const = 0;
};

// "bytes", or the path of Hugging Face's tokenizer.json (known by its braces), of a SentencePiece
// .model, or of a folder with a tokenizer.json, else (or where that is not implemented) a
// tokenizer.model. Throws DataError.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name_or_path);

}  // namespace trireme::data
