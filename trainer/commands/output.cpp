#include "trainer/commands/output.h"

#include <cstdio>

#include "model/base/error.h"

namespace trireme {

void print_out(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0) {
    throw EnvironmentError("cannot write to standard output");
  }
}

}  // namespace trireme
