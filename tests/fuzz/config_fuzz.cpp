#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/base/error.h"
#include "trainer/config/difference.h"
#include "trainer/config/effective.h"
#include "trainer/config/reader.h"

namespace {

// The first line, if it starts with "--", is an override; the rest is the file.
std::vector<trireme::Override> take_override(std::string& text) {
  if (!text.starts_with("--")) return {};
  const std::size_t end = text.find('\n');
  std::vector<std::string> words{text.substr(0, end)};
  text = end == std::string::npos ? "" : text.substr(end + 1);
  return trireme::split_overrides(words).overrides;
}

}  // namespace

// Any text either gives a config that reads back to itself, or one ConfigError.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<trireme::Override> overrides = take_override(text);
  try {
    const auto loaded = trireme::read_config({"fuzz.toml", text, "/folder"}, overrides);
    const std::string effective = trireme::effective_toml(loaded);
    const auto again = trireme::read_config({"again.toml", effective, "/elsewhere"}, {});
    if (!(again.config == loaded.config)) std::abort();
    if (!trireme::difference(loaded.config, again.config).empty()) std::abort();
  } catch (const trireme::ConfigError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
