#include "trainer/config/local_path.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "model/base/error.h"

namespace trireme {
namespace {

// "s3" of "s3://bucket/run"; empty: no URL.
std::string scheme_of(const std::string& text) {
  const std::size_t end = text.find("://");
  if (end == std::string::npos || end == 0) return {};
  const bool is_scheme =
      std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
      });
  return is_scheme ? text.substr(0, end) : std::string();
}

}  // namespace

LocalPath local_path(const std::string& text) {
  if (const std::string scheme = scheme_of(text); !scheme.empty()) {
    return {{}, say(scheme, ":// is not supported; give a path on a mounted file system")};
  }
  for (const std::string_view start : {"~", "$HOME", "${HOME}"}) {
    if (!text.starts_with(start)) continue;
    const std::string rest = text.substr(start.size());
    if (!rest.empty() && rest.front() != '/') continue;
    const char* home =
        std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): never set by this program
    if (home == nullptr || *home == '\0') return {{}, "HOME is not set; give the full path"};
    return {home + rest, {}};
  }
  if (text.starts_with("~")) return {{}, "only ~/ is expanded; give the full path"};
  if (text.starts_with("$")) {
    return {{}, "only $HOME is expanded; give the full path"};
  }
  return {text, {}};
}

}  // namespace trireme
