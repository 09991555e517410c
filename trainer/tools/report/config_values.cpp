#include "trainer/tools/report/config_values.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

std::string trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

}  // namespace

std::size_t comment_start(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return i;
    }
  }
  return line.size();
}

bool ConfigValue::is_chosen() const {
  return !origin.empty() && !origin.starts_with("default") && !origin.starts_with("flavor ") &&
         origin != "derived";
}

std::vector<ConfigValue> config_values(std::string_view text) {
  std::vector<ConfigValue> values;
  std::string section;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const std::size_t comment = comment_start(line);
    const std::string code = trimmed(line.substr(0, comment));
    const std::size_t equals = code.find('=');
    if (code.starts_with('[') && code.ends_with(']')) {
      section = code.substr(1, code.size() - 2);
    } else if (equals != std::string::npos) {
      const std::string_view origin = line.substr(std::min(comment + 1, line.size()));
      values.push_back({.key = section + "." + trimmed(std::string_view(code).substr(0, equals)),
                        .value = trimmed(std::string_view(code).substr(equals + 1)),
                        .origin = trimmed(origin)});
    }
  }
  return values;
}

std::vector<ConfigDifference> config_differences(const std::vector<std::string_view>& texts) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>, std::less<>> by_key;
  for (std::size_t run = 0; run < texts.size(); ++run) {
    for (const ConfigValue& one : config_values(texts[run])) {
      const auto [place, is_new] = by_key.try_emplace(one.key, texts.size());
      if (is_new) order.push_back(one.key);
      place->second[run] = one.value;
    }
  }
  std::vector<ConfigDifference> differences;
  for (const std::string& key : order) {
    std::vector<std::string>& values = by_key[key];
    const bool differs = std::any_of(values.begin(), values.end(), [&](const std::string& value) {
      return value != values.front();
    });
    if (!differs || key == "job.dump_folder" || key == "checkpoint.folder") continue;
    differences.push_back({key, std::move(values)});
  }
  return differences;
}

}  // namespace trireme
