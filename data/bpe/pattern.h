#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace trireme::data {

// Scratch memory of a match. Not thread-safe.
class MatchRoom {
 public:
  MatchRoom();
  ~MatchRoom();
  MatchRoom(const MatchRoom&) = delete;
  MatchRoom& operator=(const MatchRoom&) = delete;

 private:
  friend class Pattern;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
};

// The regular expression of a pre-tokenizer, in the syntax of Oniguruma, which the tokenizers
// library uses, executed by PCRE2. Thread-safe.
class Pattern {
 public:
  enum class Kind { kRegex, kLiteral };
  // Throws DataError for a pattern that is invalid, that never matches, or that the two engines
  // interpret differently.
  Pattern(const std::string& text, Kind kind);

  struct Range {
    std::size_t begin, end;
  };
  // The first match at or after `from`. `text` is valid UTF-8 with replaced characters (see
  // later_unicode.h). Throws DataError if the search takes too long.
  std::optional<Range> find(MatchRoom& room, std::string_view text, std::size_t from) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool has_jit_;
  std::string text_;
};

// A pattern as a tokenizer.json gives it.
struct PatternSpec {
  std::string text{};
  Pattern::Kind kind = Pattern::Kind::kLiteral;
};

// Translates an expression to PCRE2's syntax. Throws DataError unless it is known to have the same
// meaning.
std::string to_pcre2(std::string_view oniguruma);

}  // namespace trireme::data
