#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "data/sentencepiece_encoder.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::data {
namespace {

// Text that normalizers and vocabularies are known to change: repeated, leading and special white
// space, ligatures, fractions, full-width forms, combining marks, rare characters.
constexpr std::string_view kTrial{
    " x  y \t z \n\n w\r\n \xEF\xAC\x81 \xC2\xBD \xEF\xBC\xA1 e\xCC\x81 \xC2\xA0\xE3\x80\x80"
    "\xF4\x8F\xBF\xBD\x01\x7F \xE2\x81\x87 q  "};

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const std::size_t mark = std::min(piece.find(kSpaceMark), piece.size());
    text += piece.substr(0, mark);
    piece.remove_prefix(mark);
    if (piece.empty()) break;
    text += ' ';
    piece.remove_prefix(kSpaceMark.size());
  }
  return text;
}

// "<0x0A>" -> 10
int byte_of(const std::string& piece) {
  unsigned value = 256;
  if (piece.size() == 6) std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return value < 256 ? static_cast<int>(value) : -1;
}

// Whether a piece contains `second` right after another character.
bool any_enters(const std::vector<std::string>& texts, char second) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == second && text[i - 1] != second) return true;
    }
    return false;
  });
}
bool any_leaves(const std::vector<std::string>& texts, char first) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i - 1] == first && text[i] != first) return true;
    }
    return false;
  });
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string path, const std::string& content)
    : path_(std::move(path)), hash_(hex(XXH3_64bits(content.data(), content.size()))) {
  auto library = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = library->LoadFromSerializedProto(content);
  if (!status.ok() || library->GetPieceSize() <= 0) {
    throw DataError(say("tokenizer ", path_,
                        ": is not a SentencePiece model, or is damaged; give \"bytes\" or the path "
                        "of a tokenizer.json or a SentencePiece .model"));
  }
  library_ = std::move(library);
  read_pieces();
  kind_ = find_kind();
  find_cuts();
}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::vector<SentencePieceTokenizer::Piece> SentencePieceTokenizer::pieces() const {
  std::vector<Piece> all;
  for (int id = 0; id < library_->GetPieceSize(); ++id) {
    all.push_back({library_->IdToPiece(id), library_->GetScore(id),
                   library_->IsControl(id) || library_->IsUnknown(id)});
  }
  return all;
}

// The scores of BPE pieces are ranks, so they are integers.
bool SentencePieceTokenizer::is_bpe() const {
  for (int id = 0; id < library_->GetPieceSize(); ++id) {
    const float score = library_->GetScore(id);
    if (score != std::floor(score)) return false;
  }
  return true;
}

std::string SentencePieceTokenizer::end_piece() const {
  return end_of_document_ < 0 ? "" : library_->IdToPiece(end_of_document_);
}
std::string SentencePieceTokenizer::unknown_piece() const {
  return library_->unk_id() < 0 ? "" : library_->IdToPiece(library_->unk_id());
}

void SentencePieceTokenizer::read_pieces() {
  bytes_.fill(-1);
  const int count = library_->GetPieceSize();
  texts_.resize(count);
  for (int id = 0; id < count; ++id) {
    const std::string& piece = library_->IdToPiece(id);
    if (library_->IsControl(id)) continue;
    if (library_->IsUnknown(id)) {
      texts_[id] = " \xE2\x81\x87 ";  // as decoded by the library
    } else if (const int byte = library_->IsByte(id) ? byte_of(piece) : -1; byte >= 0) {
      texts_[id] = std::string(1, static_cast<char>(byte));
      bytes_[byte] = id;
    } else {
      texts_[id] = with_spaces(piece);
      if (texts_[id] == " ") space_ = id;
    }
  }
  end_of_document_ = library_->eos_id();
}

SentencePieceTokenizer::Kind SentencePieceTokenizer::find_kind() {
  if (std::find(bytes_.begin(), bytes_.end(), -1) != bytes_.end()) return Kind::kChanging;
  const std::string trial = spell(library_encode(kTrial));
  if (trial == kTrial && spell(library_encode("x")) == "x") return Kind::kExact;
  const bool prefixed = space_ >= 0 && !trial.empty() && trial.front() == ' ' &&
                        std::string_view(trial).substr(1) == kTrial;
  return prefixed ? Kind::kPrefixed : Kind::kChanging;
}

void SentencePieceTokenizer::find_cuts() {
  if (kind_ == Kind::kChanging) return;
  // BPE scores are the negated merge rank; unigram scores are logarithms.
  bool merges = true;
  for (int id = 0; id < library_->GetPieceSize(); ++id) {
    const float score = library_->GetScore(id);
    merges = merges && score == std::floor(score);
  }
  std::vector<std::string> pieces = texts_;
  if (library_->unk_id() >= 0) pieces[library_->unk_id()].clear();  // never produced by text
  cuts_before_spaces_ = merges && !any_enters(pieces, ' ');
  if (kind_ == Kind::kPrefixed) return;  // the library would insert its space after a newline
  cuts_before_newlines_ = merges && !any_enters(pieces, '\n');
  cuts_after_newlines_ = !any_leaves(pieces, '\n');
}

bool SentencePieceTokenizer::may_cut(char before, char after) const {
  if (after == ' ') return cuts_before_spaces_ && before != ' ';
  if (after == '\n') return cuts_before_newlines_ && before != '\n';
  return cuts_after_newlines_ && before == '\n';
}

std::size_t SentencePieceTokenizer::last_cut(std::string_view text) const {
  std::size_t at = text.empty() ? 0 : text.size() - 1;
  while (at > 0 && !may_cut(text[at - 1], text[at])) --at;
  return at;
}

std::vector<int> SentencePieceTokenizer::library_encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = library_->Encode(absl::string_view(text.data(), text.size()), &ids);
  if (!status.ok()) {
    throw DataError(say("tokenizer ", path_, ": cannot encode a text: ", status.ToString()));
  }
  return ids;
}

std::unique_ptr<Encoder> SentencePieceTokenizer::encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

std::string SentencePieceTokenizer::spell(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += texts_[id];
  return text;
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size()) continue;
    throw DataError(say("the id ", id, " is beyond the ", vocab_size(), " pieces of ", path_));
  }
  if (kind_ == Kind::kChanging) {
    std::string text;
    const auto status = library_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) {
      throw DataError(say("tokenizer ", path_, ": cannot decode ids: ", status.ToString()));
    }
    return text;
  }
  std::string text = spell(ids);
  if (kind_ == Kind::kPrefixed && !text.empty() && text.front() == ' ') text.erase(0, 1);
  return text;
}

}  // namespace trireme::data
