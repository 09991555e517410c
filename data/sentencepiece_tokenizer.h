#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace trireme::data {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, which represents a space

// A SentencePiece .model, by libsentencepiece.
//
// Text is encoded word by word with a word cache, because the library is slow on long texts. This
// is exact for BPE: merges only produce pieces of the vocabulary, so if no piece contains a space
// after another character, no merge crosses that position and the words on both sides are
// independent; likewise at the ends of ranges of newlines. The safe positions are derived from the
// vocabulary. Other models (unigram) are split at newlines only, and models that change the text
// are never split.
//
// A model with byte fallback and without normalization or prefix is lossless: the two things that
// the library itself would change, invalid UTF-8 and the character U+2581 (its representation of a
// space), are encoded as bytes.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // `content` is that of the file at `path`. Throws DataError if it is not a model.
  SentencePieceTokenizer(std::string path, const std::string& content);
  ~SentencePieceTokenizer() override;

  std::string name() const override { return "sentencepiece"; }
  std::string path() const override { return path_; }
  std::string hash() const override { return hash_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t end_of_document() const override { return end_of_document_; }
  bool lossless() const override { return kind_ == Kind::kExact; }
  // The text is unchanged except for a space added before it.
  bool puts_space_before() const { return kind_ == Kind::kPrefixed; }
  // The vocabulary, for other users.
  struct Piece {
    std::string text;
    float score;
    bool is_special;  // never produced by text: unknown, control pieces
  };
  std::vector<Piece> pieces() const;
  bool is_bpe() const;                // otherwise unigram
  std::string end_piece() const;      // spelling of the end-of-document piece; empty: none
  std::string unknown_piece() const;  // likewise
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::size_t last_cut(std::string_view text) const override;

 private:
  friend class SentencePieceEncoder;
  enum class Kind {
    kExact,     // ids spell the text
    kPrefixed,  // as kExact after adding a space before the text (Llama 2)
    kChanging,  // normalizes, or drops unknown characters
  };
  Kind find_kind();
  void find_cuts();
  void read_pieces();
  bool may_cut(char before, char after) const;
  std::string spell(std::span<const std::int32_t> ids) const;
  std::vector<int> library_encode(std::string_view text) const;

  std::string path_, hash_;
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> library_;
  std::vector<std::string> texts_;         // [vocab] text of each id
  std::array<std::int32_t, 256> bytes_{};  // ids of the byte pieces; -1: none
  std::int32_t end_of_document_ = -1;
  std::int32_t space_ = -1;  // piece of a single space
  Kind kind_ = Kind::kChanging;
  bool cuts_before_spaces_ = false, cuts_before_newlines_ = false, cuts_after_newlines_ = false;
};

}  // namespace trireme::data
