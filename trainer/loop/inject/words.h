#pragma once
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trireme::inject {

// The grammar of all TRIREME_INJECT_* variables: "step=5 rank=1 value=nan" as a map. Nothing where
// a word has no '=' or a key repeats.
std::optional<std::map<std::string, std::string>> parse_words(const std::string& text);

// The whole text as a number; else nothing.
template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// once=FILE, for injections that must not repeat after a restart: true if the file did not exist;
// creates it. True for an empty path. Throws EnvironmentError, also where the file cannot be
// created: an injection that silently does not happen would look like a run that survived it.
bool claim_once(const char* variable, const std::filesystem::path& file);

}  // namespace trireme::inject
