#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// Converts text to ids, with reusable state (a word cache). Not thread-safe.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`. `continues`: the text follows that of the previous call, split at a
  // position returned by Tokenizer::last_cut.
  virtual void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) = 0;
};

// Immutable, so thread-safe. The empty text has no ids; ids do not include an end of document.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;  // "bytes", "sentencepiece", "tokenizer.json", "tiktoken"
  virtual std::string path() const = 0;  // of its file; empty if there is none
  virtual std::string hash() const = 0;  // of the vocabulary; differs if ids differ
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t end_of_document() const = 0;  // -1: none in the vocabulary
  virtual bool lossless() const = 0;                 // decode(encode(text)) == text for every text

  // Special tokens that the file would add around a text and encode() does not; for messages.
  virtual std::string surroundings() const { return {}; }

  virtual std::unique_ptr<Encoder> encoder() const = 0;
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Ids outside the vocabulary throw DataError; control ids, such as end of document, decode to
  // nothing.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  // The last position at which `text` can be split so that the parts, encoded in order, give the
  // ids of the whole; 0 if there is none.
  virtual std::size_t last_cut(std::string_view text) const = 0;
};

// Accepts "bytes", or the path of a Hugging Face tokenizer.json (recognized by its braces), of a
// SentencePiece .model, of a tiktoken file, or of a folder with a tokenizer.json or, if that is
// missing or not supported, a tokenizer.model. Throws DataError.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name_or_path);

}  // namespace trireme::data
