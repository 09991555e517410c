#include "model/base/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trireme {

bool can_rewrite_lines(int descriptor) {
  const char* const kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  return ::isatty(descriptor) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool forbids_color() {
  const char* const value = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && *value != '\0';
}

}  // namespace trireme
