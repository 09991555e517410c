#include "trainer/config/nesting.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int kMostBrackets = 16;
constexpr int kMostDots = 16;  // in one key; numbers and dates have fewer

// The length of the string that starts at the front of `text`, quotes included. One
// that does not end reaches to the end of its line, or of the text if it spans lines.
std::size_t string_length(std::string_view text) {
  const char quote = text.front();
  const bool spans_lines = text.size() >= 3 && text[1] == quote && text[2] == quote;
  const std::string_view end = spans_lines ? text.substr(0, 3) : text.substr(0, 1);
  std::size_t i = end.size();
  while (i < text.size()) {
    if (text.substr(i, end.size()) == end) return i + end.size();
    if (text[i] == '\n' && !spans_lines) return i;
    i += quote == '"' && text[i] == '\\' ? 2 : 1;
  }
  return text.size();
}

std::size_t comment_length(std::string_view text) {
  return std::min(text.find('\n'), text.size());
}

TextPosition position(std::string_view text, std::size_t at) {
  TextPosition found;
  for (const char c : text.substr(0, at)) {
    if (c == '\n') {
      ++found.line;
      found.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++found.column;
    }
  }
  return found;
}

}  // namespace

std::optional<TextPosition> too_deep(std::string_view toml) {
  int brackets = 0;
  int dots = 0;
  std::size_t i = 0;
  while (i < toml.size()) {
    const char c = toml[i];
    const std::string_view rest = toml.substr(i);
    if (c == '"' || c == '\'') {
      i += string_length(rest);
      continue;
    }
    if (c == '#') {
      i += comment_length(rest);
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') brackets = std::max(0, brackets - 1);
    if (c == '.') ++dots;
    if (std::string_view("[]{},=\n").find(c) != std::string_view::npos) dots = 0;
    if (brackets > kMostBrackets || dots > kMostDots) return position(toml, i);
    ++i;
  }
  return std::nullopt;
}

}  // namespace trireme
