#include <cctype>
#include <map>
#include <sstream>

#include "model/base/error.h"
#include "trainer/convert/trainers/foreign_config.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "--split '99,1,0'" in double quotes has quotes inside.
std::string without_quotes(const std::string& word) {
  const bool is_quoted = word.size() > 1 && word.front() == '\'' && word.back() == '\'';
  return is_quoted ? word.substr(1, word.size() - 2) : word;
}

constexpr const char* kEndOfCommand = ";";  // of a command, or of a list: what follows is another

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

// The words of a shell script, as far as they are plain: quotes, comments, continued lines,
// assignments of one word, and variables that were so assigned before. An option and its value in
// one pair of quotes are two words, as they are once the array around them has been expanded.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  std::vector<std::string> all() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] != '\n') take(text_[at_ + 1]);
        at_ += 2;
      } else if (c == '\'' || c == '"') {
        quoted(c);
      } else if (c == '#' && !begun_) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '$') {
        variable(/*is_quoted=*/false);
      } else if (is_space(c) || std::string_view("();|&<>").find(c) != std::string_view::npos) {
        if ((c == '<' || c == '>') && (word_ == "1" || word_ == "2")) drop_word();  // 2>file
        end_word();
        depth_ += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == '\n' ? depth_ <= 0 : !is_space(c) && c != '(') words_.emplace_back(kEndOfCommand);
        ++at_;
      } else {
        take(c);
        ++at_;
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    word_ += c;
    begun_ = true;
  }

  void quoted(char quote) {
    begun_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote;) {
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] != '\n') take(text_[at_ + 1]);
        at_ += 2;
      } else if (quote == '"' && text_[at_] == '$') {
        variable(/*is_quoted=*/true);
      } else {
        take(text_[at_++]);
      }
    }
    if (at_ == text_.size()) throw ConfigError("a quote is never closed");
    ++at_;
  }

  // $NAME, ${NAME}, ${NAME:-default}; what is not known stays as it is. An array's use is an end:
  // its words were read where it was written.
  void variable(bool is_quoted) {
    std::size_t end = at_ + 1;
    const bool in_braces = end < text_.size() && text_[end] == '{';
    if (in_braces) ++end;
    const std::size_t first = end;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const auto known = variables_.find(text_.substr(first, end - first));
    std::string_view rest;
    if (in_braces) {
      const std::size_t brace = std::min(text_.find('}', end), text_.size() - 1);
      rest = text_.substr(end, brace - end);
      end = brace + 1;
    }
    const std::string_view whole = text_.substr(at_, end - at_);
    at_ = end;
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
      end_word();
      words_.emplace_back(kEndOfCommand);
    } else if (known != variables_.end() && (!known->second.empty() || rest.empty())) {
      expand(std::string(known->second), is_quoted);
    } else if (rest.starts_with(":-") || rest.starts_with("-")) {
      expand(std::string(rest.substr(rest.front() == ':' ? 2 : 1)), is_quoted);
    } else {
      expand(std::string(whole), /*is_quoted=*/true);
    }
  }

  // Outside quotes what a variable holds is split into words, but not in an assignment.
  void expand(const std::string& value, bool is_quoted) {
    if (is_quoted || assigned_name() != 0) {
      word_ += value;
      begun_ = true;
      return;
    }
    for (const char c : value) is_space(c) ? end_word() : take(c);
  }

  // The length of NAME in NAME=value or NAME+=value; 0: the word is no assignment.
  std::size_t assigned_name() const {
    std::size_t name = 0;
    while (name < word_.size() && is_name(word_[name])) ++name;
    const std::string_view rest = std::string_view(word_).substr(name);
    return rest.starts_with('=') || rest.starts_with("+=") ? name : 0;
  }

  void drop_word() {
    word_.clear();
    begun_ = false;
  }

  void end_word() {
    if (!begun_) return;
    if (const std::size_t name = assigned_name(); name > 0) {
      const bool adds = word_[name] == '+';
      std::string& value = variables_[word_.substr(0, name)];
      value = (adds ? value : "") + word_.substr(name + (adds ? 2 : 1));
    } else if (word_.starts_with("--") && word_.find('=') > word_.find_first_of(" \t\n")) {
      std::istringstream parts(word_);
      for (std::string part; parts >> part;) words_.push_back(without_quotes(part));
    } else {
      words_.push_back(word_);
    }
    drop_word();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool begun_ = false;
  int depth_ = 0;  // of parentheses; a list goes over lines, a command does not
  std::vector<std::string> words_;
  Variables variables_;
};

}  // namespace

ForeignConfig read_megatron(std::string_view text) {
  ForeignConfig config{.kind = ForeignConfig::Kind::kMegatron, .entries = {}};
  bool takes_values = false;
  for (const std::string& word : Words(text).all()) {
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      for (char& c : key) c = c == '_' ? '-' : c;
      config.entries.push_back({std::move(key), {}});
      takes_values = true;
      if (equals != std::string::npos) config.entries.back().values = {word.substr(equals + 1)};
    } else if (word == kEndOfCommand) {
      takes_values = false;
    } else if (takes_values) {
      config.entries.back().values.push_back(word);
    }
  }
  if (config.entries.empty()) throw ConfigError("there is no --argument of Megatron-LM's in it");
  return config;
}

}  // namespace trireme
