#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "model/base/error.h"

// OpenBLAS allocates memory before main() and retries forever if it fails, so a limit that is too
// low has to be reported before its constructor runs.
namespace {

constexpr rlim_t kMiB = rlim_t{1} << 20;
constexpr rlim_t kLeast = 512 * kMiB;       // libraries and their buffers at start
constexpr rlim_t kOfProcessor = 16 * kMiB;  // per thread: stack and buffers

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
      "trireme: error: the address space limit is %llu MiB, but trireme needs at least "
      "%llu MiB to start: raise it with ulimit -v, or remove it with ulimit -v unlimited\n",
      static_cast<unsigned long long>(limit.rlim_cur / kMiB),
      static_cast<unsigned long long>(needed / kMiB));
  if (size > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(size)) < 0) {
    // stderr is closed; the exit code remains
  }
  std::_Exit(static_cast<int>(trireme::ExitCode::kEnvironment));
}

// .preinit_array runs before the constructors of all libraries.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): it points to a function
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**,
                                                                   char**) = require_address_space;

}  // namespace
