#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "model/base/error.h"

// OpenBLAS asks for its memory before main() begins, and where it gets none it asks without end:
// a limit that it cannot live with has to be told before its constructor runs.
namespace {

constexpr rlim_t kMiB = rlim_t{1} << 20;
constexpr rlim_t kLeast = 512 * kMiB;       // the libraries, and what they take at their start
constexpr rlim_t kOfProcessor = 16 * kMiB;  // a thread's stack and its buffers

#if defined(__GNUC__)
__attribute__((no_sanitize("address", "undefined")))
#endif
void require_address_space(int, char**, char**) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  const rlim_t needed =
      kLeast + kOfProcessor * static_cast<rlim_t>(processors > 0 ? processors : 1);
  if (limit.rlim_cur >= needed) return;
  char text[256];
  const int size = std::snprintf(
      text, sizeof text,
      "trireme: error: the address space is limited to %llu MiB, and the program needs at least "
      "%llu MiB to begin: raise ulimit -v, or lift it with ulimit -v unlimited\n",
      static_cast<unsigned long long>(limit.rlim_cur / kMiB),
      static_cast<unsigned long long>(needed / kMiB));
  if (size > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(size)) < 0) {
    // nobody reads it: the exit code says it alone
  }
  std::_Exit(static_cast<int>(trireme::ExitCode::kEnvironment));
}

// What stands here runs before the constructors of all libraries.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): it points to a function
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**,
                                                                   char**) = require_address_space;

}  // namespace
