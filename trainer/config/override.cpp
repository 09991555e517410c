#include "trainer/config/override.h"

#include "trainer/config/option.h"

namespace trireme {
namespace {

bool is_override(const std::string& word) {
  if (!word.starts_with("--") || word.size() < 3 || word[2] < 'a' || word[2] > 'z') return false;
  const std::string name = word.substr(2, word.find('=') - 2);
  return name.find('.') != std::string::npos;
}

// "training.no_thing" switches "training.thing" off; empty when it is not of this form.
std::string without_no(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  if (key.compare(dot + 1, 3, "no_") != 0) return {};
  const std::string positive = key.substr(0, dot + 1) + key.substr(dot + 4);
  const Option* option = find_option(positive);
  return option != nullptr && option->is_switch() ? positive : std::string();
}

bool is_switch(const std::string& key) {
  const Option* option = find_option(key);
  return option != nullptr && option->is_switch();
}

}  // namespace

CommandLine split_overrides(std::span<const std::string> arguments) {
  CommandLine line;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      line.arguments.insert(line.arguments.end(), arguments.begin() + i, arguments.end());
      break;
    }
    if (!is_override(word)) {
      line.arguments.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const bool has_next = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    std::string key = word.substr(2, equals - 2);
    if (equals != std::string::npos) {
      line.overrides.push_back({std::move(key), word.substr(equals + 1)});
    } else if (std::string positive = without_no(key); !positive.empty()) {
      line.overrides.push_back({std::move(positive), "false"});
    } else if (is_switch(key)) {
      const bool spelt_out =
          has_next && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
      line.overrides.push_back({std::move(key), spelt_out ? arguments[++i] : "true"});
    } else {
      line.overrides.push_back({std::move(key), has_next ? arguments[++i] : ""});
    }
  }
  return line;
}

}  // namespace trireme
