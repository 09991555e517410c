#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "data/bpe/pattern.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// Copies an expression token by token; rejects what the two engines interpret differently.
class Translator {
 public:
  explicit Translator(std::string_view whole) : whole_(whole), rest_(whole) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_.front() == '\\') {
        escape();
      } else if (in_class_) {
        inside_class();
      } else {
        outside_class();
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw DataError(say("the pattern ", whole_, " has \"", what,
                        "\", which is not known to mean the same in PCRE2"));
  }
  void copy(std::size_t count) {
    out_ += rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  void escape() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 'p' || kind == 'P') return property();
    if (kind == 'x' || kind == 'u') return number(kind);
    constexpr std::string_view kSame = "sSdDrntf";
    const auto byte = static_cast<unsigned char>(kind);
    const bool plain = byte > ' ' && byte < 0x7F && std::isalnum(byte) == 0;
    if (!plain && kSame.find(kind) == std::string_view::npos) refuse(rest_.substr(0, 2));
    copy(2);
  }

  void property() {
    const std::size_t end = rest_.find('}');
    if (rest_.size() < 4 || rest_[2] != '{' || end == std::string_view::npos) {
      refuse(rest_.substr(0, 3));
    }
    std::string_view name = rest_.substr(3, end - 3);
    const bool negated = !name.empty() && name.front() == '^';
    if (negated) name.remove_prefix(1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_letter)) {
      refuse(rest_.substr(0, end + 1));
    }
    // A short name is a general category. PCRE2 matches script extensions for the name of a script.
    out_ += rest_.substr(0, 3);
    if (negated) out_ += '^';
    if (name.size() > 2) out_ += "sc:";
    out_ += name;
    out_ += '}';
    rest_.remove_prefix(end + 1);
  }

  void number(char kind) {
    const std::size_t open = kind == 'x' && rest_.size() > 2 && rest_[2] == '{' ? 1 : 0;
    std::size_t end = 2 + open;
    while (end < rest_.size() && std::isxdigit(static_cast<unsigned char>(rest_[end])) != 0) ++end;
    const std::size_t digits = end - 2 - open;
    // Above ASCII, "\x" with two digits is a byte in one engine and a character in the other.
    const bool known = open == 1     ? digits > 0 && end < rest_.size() && rest_[end] == '}'
                       : kind == 'u' ? digits >= 4
                                     : digits >= 2 && rest_[2] < '8';
    if (!known) refuse(rest_.substr(0, end));
    const std::size_t taken = open == 1 ? digits : kind == 'u' ? 4 : 2;
    out_ += "\\x{";
    out_ += rest_.substr(2 + open, taken);
    out_ += '}';
    rest_.remove_prefix(2 + 2 * open + taken);
  }

  void inside_class() {
    if (rest_.front() == '[' || rest_.substr(0, 2) == "&&") refuse(rest_.substr(0, 2));
    in_class_ = rest_.front() != ']';
    copy(1);
  }

  void outside_class() {
    switch (rest_.front()) {
      case '[': {
        in_class_ = true;
        const std::size_t size = rest_.substr(0, 2) == "[^" ? 2 : 1;
        if (rest_.substr(size, 1) == "]") refuse("[]");
        return copy(size);
      }
      case '(':
        return group();
      case '{':
        return braces();
      case '$':  // also before a newline within the text
        out_ += "(?m:$)";
        return rest_.remove_prefix(1);
      case '^':
        refuse(rest_.substr(0, 1));
      default:
        return copy(1);
    }
  }

  void group() {
    constexpr std::array<std::string_view, 7> kSame{"(?:",  "(?i:", "(?=", "(?!",
                                                    "(?<=", "(?<!", "(?>"};
    if (rest_.substr(0, 2) == "(*") refuse("(*");
    if (rest_.substr(0, 2) != "(?") return copy(1);
    const auto* found = std::find_if(kSame.begin(), kSame.end(), [&](std::string_view start) {
      return rest_.substr(0, start.size()) == start;
    });
    if (found == kSame.end()) refuse(rest_.substr(0, 3));
    copy(found->size());
  }

  // {n}, {n,} and {n,m} repeat in both engines; suffixes differ.
  void braces() {
    std::size_t end = 1;
    while (end < rest_.size() && (is_digit(rest_[end]) || rest_[end] == ',')) ++end;
    const std::string_view inner = rest_.substr(1, end - 1);
    const bool repeats = end < rest_.size() && rest_[end] == '}' && !inner.empty() &&
                         is_digit(inner.front()) &&
                         std::count(inner.begin(), inner.end(), ',') <= 1;
    if (!repeats) refuse(rest_.substr(0, end + 1));
    copy(end + 1);
    if (!rest_.empty() && (rest_.front() == '+' || rest_.front() == '?')) refuse("}+ or }?");
  }

  std::string_view whole_, rest_;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma) {
  return Translator(oniguruma).run();
}

}  // namespace trireme::data
