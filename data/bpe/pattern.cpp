#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/bpe/pattern.h"

#include <pcre2.h>

#include <array>
#include <cstdint>
#include <new>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kFirstStack = 32u << 10, kLargestStack = 16u << 20;
constexpr std::uint32_t kMostBacktracks = 100'000'000;  // about a second

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string reason(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

MatchRoom::MatchRoom()
    : data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr)) {
  if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(context_, kMostBacktracks);
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}

MatchRoom::~MatchRoom() {
  pcre2_jit_stack_free(stack_);
  pcre2_match_context_free(context_);
  pcre2_match_data_free(data_);
}

void Pattern::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Pattern::Pattern(const std::string& text, Kind kind) : text_(text) {
  const bool literal = kind == Kind::kLiteral;
  const std::string ours = literal ? text : to_pcre2(text);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context, 1u << 16);
  code_.reset(
      pcre2_compile(bytes_of(ours), ours.size(),
                    PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C),
                    &error, &place, context));
  pcre2_compile_context_free(context);
  if (!code_) throw DataError(say("the pattern ", text, " is broken: ", reason(error)));
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (text.empty() || matches_nothing != 0) {
    throw DataError(say("the pattern \"", text, "\" can match the empty text"));
  }
  // The JIT may be forbidden by a hardened kernel; matching is then slower but equivalent.
  has_jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<Pattern::Range> Pattern::find(MatchRoom& room, std::string_view text,
                                            std::size_t from) const {
  const auto match = has_jit_ ? pcre2_jit_match : pcre2_match;
  const int found = match(code_.get(), bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                          room.data_, room.context_);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(room.data_);
  // Only look-behind and \K can make an empty or backward match.
  if (found < 0 || at[1] <= at[0] || at[0] < from) {
    throw DataError(say("the tokenizer's pattern ", text_,
                        " cannot cut a text: ", found < 0 ? reason(found) : "it matched nothing"));
  }
  return Range{at[0], at[1]};
}

}  // namespace trireme::data
