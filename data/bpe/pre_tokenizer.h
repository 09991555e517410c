#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/json_section.h"
#include "data/bpe/pattern.h"

namespace trireme::data {

// GPT-2's pattern, built into the tokenizers library.
extern const char* const kGpt2Pattern;

struct PreTokenizerSpec {
  enum class Parts {
    kAll,            // matches and the text between them
    kMatches,        // the text between matches is dropped
    kMatchesAtEnds,  // as kAll, and a match ends the part before it ("MergedWithPrevious")
  };
  struct Split {
    PatternSpec pattern;
    Parts parts;
  };
  struct Metaspace {
    enum class Prefix { kAlways, kFirst, kNever };
    std::string mark{};  // replaces spaces
    Prefix prefix = Prefix::kAlways;
    bool splits = true;  // a mark begins a word
  };
  std::vector<Split> splits{};  // nested
  std::optional<Metaspace> metaspace{};
  bool byte_level = false;
  bool prefix_space = false;    // byte level: add a space before every part that has none,
  bool splits_by_gpt2 = false;  // then split by GPT-2's pattern
};

// Throws DataError naming what is not implemented.
PreTokenizerSpec parse_pre_tokenizer(const JsonSection& section);

// Splits normalized text into words. Thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerSpec& spec);
  using Word = std::function<void(std::string_view)>;
  // Calls `word` for each word of `part`, valid UTF-8 between added tokens; `is_first`: it begins
  // the text.
  void split(MatchRoom& room, std::string_view part, bool is_first, const Word& word) const;

 private:
  struct Split {
    Pattern pattern;
    PreTokenizerSpec::Parts parts;
  };
  // `likeness` is the text the patterns match instead of `part`, with the same byte offsets.
  void split_from(std::size_t stage, MatchRoom& room, std::string_view part,
                  std::string_view likeness, const Word& word) const;
  void split_at_marks(std::string_view part, bool is_first, const Word& word) const;

  std::vector<Split> splits_;         // nested; the byte level's GPT-2 split is last
  std::size_t splits_before_prefix_;  // number of splits before the prefix space is added
  bool prefix_space_;
  std::optional<PreTokenizerSpec::Metaspace> metaspace_;
};

}  // namespace trireme::data
