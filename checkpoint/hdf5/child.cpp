#include "checkpoint/hdf5/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "model/base/error.h"
#include "model/base/outcome.h"

namespace trireme::checkpoint {
namespace {

void write_to(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(pipe, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ::_exit(1);  // the parent is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string read_from(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string in_child(const std::string& what, const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentError(say(what, ": cannot make a pipe: ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int reason = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw EnvironmentError(say(what, ": cannot start a child process: ", std::strerror(reason)));
  }
  if (child == 0) {
    become_child(ends[1], parent);
    write_to(ends[1], outcome_of(work));
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string said = read_from(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    throw EnvironmentError(say(what, ": the child process was killed by signal ", signal, " (",
                               ::strsignal(signal), ")"));
  }
  if (said.empty()) throw EnvironmentError(say(what, ": the child process returned no result"));
  return result_of(said);
}

void become_child(int descriptor, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
  // Including the run's lease and sockets, whose peers must notice the parent's death.
  if (descriptor > 3) ::close_range(3, static_cast<unsigned>(descriptor) - 1, 0);
  ::close_range(static_cast<unsigned>(descriptor) + 1, ~0u, 0);
}

}  // namespace trireme::checkpoint
