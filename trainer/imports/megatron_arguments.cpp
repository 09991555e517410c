#include <cctype>
#include <map>

#include "model/base/error.h"
#include "trainer/imports/foreign_config.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

constexpr const char* kEnd = ";";  // of a command, or of a list: what follows is another

// The words of a shell script, as far as they are plain: quotes, comments, continued lines,
// assignments of one word, and variables that were so assigned before.
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
        variable();
      } else if (std::isspace(static_cast<unsigned char>(c)) || c == '(' || c == ')' || c == ';') {
        end_word();
        if (c == ')' || c == ';') words_.emplace_back(kEnd);
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
      if (quote == '"' && text_[at_] == '$') {
        variable();
      } else {
        take(text_[at_++]);
      }
    }
    if (at_ == text_.size()) throw ConfigError("a quote is never closed");
    ++at_;
  }

  // $NAME, ${NAME}; what is not known stays as it is.
  void variable() {
    std::size_t end = at_ + 1;
    const bool in_braces = end < text_.size() && text_[end] == '{';
    if (in_braces) ++end;
    const std::size_t first = end;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const auto known = variables_.find(text_.substr(first, end - first));
    if (in_braces) end = std::min(text_.find('}', end), text_.size() - 1) + 1;
    if (known != variables_.end()) {
      word_ += known->second;
    } else {
      word_ += text_.substr(at_, end - at_);
    }
    begun_ = true;
    at_ = end;
  }

  void end_word() {
    if (!begun_) return;
    const std::size_t equals = word_.find('=');
    std::size_t name = 0;
    while (name < word_.size() && is_name(word_[name])) ++name;
    if (equals != std::string::npos && name == equals && name > 0) {
      variables_[word_.substr(0, name)] = word_.substr(equals + 1);
    } else {
      words_.push_back(word_);
    }
    word_.clear();
    begun_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool begun_ = false;
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
    } else if (word == kEnd || word.ends_with("[@]}")) {
      takes_values = false;
    } else if (takes_values) {
      config.entries.back().values.push_back(word);
    }
  }
  if (config.entries.empty()) throw ConfigError("there is no --argument of Megatron-LM's in it");
  return config;
}

}  // namespace trireme
