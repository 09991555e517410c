#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace trireme {

// Whether a name is valid in a metric key: "validation_loss/NAME".
inline bool is_metric_name(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), is_plain);
}
// Position of the slash in "GROUP/NAME"; npos if the key does not have this form.
inline std::size_t slash_of_metric(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos || !is_metric_name(key.substr(0, slash)) ||
      !is_metric_name(key.substr(slash + 1))) {
    return std::string_view::npos;
  }
  return slash;
}
inline constexpr const char* kMetricNameWords = "1 to 64 letters, digits, '-', '_' or '.'";

}  // namespace trireme
