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

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, which stands for a space

// A SentencePiece .model, through libsentencepiece.
//
// Text is encoded word by word, with a cache of words, because the library is slow on
// long texts. That is exact for BPE: a merge only makes pieces of the vocabulary, so where no
// piece holds a space after something else, none can reach across that place, and the words
// on both sides evolve as if alone; likewise at the edges of runs of newlines. Which
// places are safe is read from the vocabulary. Other models (unigram) are cut at the
// edges of newlines only, and models that change the text are never cut.
//
// A model with byte fallback, no normalization and no prefix of its own gives back every
// text: the two things the library itself would change, bytes that are not UTF-8 and
// the character U+2581 (its own mark for a space), are spelled in bytes.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // `content` of the file at `path`. Throws DataError when it is no model.
  SentencePieceTokenizer(std::string path, const std::string& content);
  ~SentencePieceTokenizer() override;

  std::string name() const override { return "sentencepiece"; }
  std::string path() const override { return path_; }
  std::string hash() const override { return hash_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t end_of_document() const override { return end_of_document_; }
  bool lossless() const override { return kind_ == Kind::kExact; }
  // Text is taken as it is but for a space that is put before it.
  bool puts_space_before() const { return kind_ == Kind::kPrefixed; }
  // The vocabulary, for other readers of it.
  struct Piece {
    std::string text;
    float score;
    bool is_special;  // of no text: unknown, the ends of texts
  };
  std::vector<Piece> pieces() const;
  bool is_bpe() const;                // else unigram
  std::string end_piece() const;      // as the model spells its end of document; empty: none
  std::string unknown_piece() const;  // likewise
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::size_t last_cut(std::string_view text) const override;

 private:
  friend class SentencePieceEncoder;
  enum class Kind {
    kExact,     // ids spell the text
    kPrefixed,  // the same after a space put before every text (Llama 2)
    kChanging,  // normalizes, or drops what it does not know
  };
  Kind find_kind();
  void find_cuts();
  void read_pieces();
  bool may_cut(char before, char after) const;
  std::string spell(std::span<const std::int32_t> ids) const;
  std::vector<int> library_encode(std::string_view text) const;

  std::string path_, hash_;
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> library_;
  std::vector<std::string> texts_;         // [vocab] what each id stands for
  std::array<std::int32_t, 256> bytes_{};  // ids of the byte pieces, -1 without
  std::int32_t end_of_document_ = -1;
  std::int32_t space_ = -1;  // the piece of a single space
  Kind kind_ = Kind::kChanging;
  bool cuts_before_spaces_ = false, cuts_before_newlines_ = false, cuts_after_newlines_ = false;
};

}  // namespace trireme::data
