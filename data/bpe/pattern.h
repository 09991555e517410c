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

// Room for the work of matching. For one thread.
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

// What a pre-tokenizer cuts texts by: a regular expression written for Oniguruma, which
// Hugging Face's library uses, run by PCRE2. Any thread may match.
class Pattern {
 public:
  enum class Kind { kRegex, kLiteral };
  // Throws DataError for a pattern that is broken, that matches nothing at all, or that the
  // two engines would read in different ways.
  Pattern(const std::string& text, Kind kind);

  struct Range {
    std::size_t begin, end;
  };
  // The first match at or after `from`; `text` is valid UTF-8 in the words of later_unicode.h.
  // Throws DataError when the search takes too long.
  std::optional<Range> find(MatchRoom& room, std::string_view text, std::size_t from) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::string text_;
};

// The same expression in PCRE2's syntax. Throws DataError for what is not known to mean the same.
std::string to_pcre2(std::string_view oniguruma);

}  // namespace trireme::data
