#pragma once
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trireme {

// "step=5 rank=1 value=nan" as a map. Nothing where a word has no '=' or comes twice.
std::optional<std::map<std::string, std::string>> drill_words(const std::string& text);

// The whole text as a number; else nothing.
template <class Number>
std::optional<Number> drill_number(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, why] = std::from_chars(text.data(), end, value);
  if (why != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Whether a drill that strikes but once, over all restarts, is to strike now: the file is not
// there, and is made. An empty path: yes. Throws EnvironmentError, also where the file cannot be
// made: a drill that was asked for and does not come would be taken for a run that stands it.
bool take_once(const char* variable, const std::filesystem::path& file);

}  // namespace trireme
