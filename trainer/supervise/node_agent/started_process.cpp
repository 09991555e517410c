#include "trainer/supervise/node_agent/started_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "model/base/error.h"

namespace trireme {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_and(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    bool is_given = false;
    for (const std::string& given : variables) {
      is_given = is_given || given.substr(0, given.find('=')) == name;
    }
    if (!is_given) all.emplace_back(text);
  }
  return all;
}

// Parameters of the child process, prepared before fork().
struct Child {
  std::vector<char*> words;
  std::vector<char*> variables;
  const char* output;  // may be null
  pid_t starter;       // id of this process
  bool follows;        // receives SIGTERM when it dies
  int outlives_s;      // seconds; 0: no guard
};

bool redirect(const char* path, int flags, int from) {
  const int file = ::open(path, flags, 0644);
  return file >= 0 && ::dup2(file, from) >= 0;
}

bool redirect_all(const char* output) {
  if (!redirect("/dev/null", O_RDONLY, STDIN_FILENO)) return false;
  return !output || (redirect(output, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO) &&
                     ::dup2(STDOUT_FILENO, STDERR_FILENO) >= 0);
}

// Guard process between a program and its starter: returns the program's exit code, or kills the
// group once the starter has been gone for `outlives_s`. Restricted to what is allowed after fork()
// in a multi-threaded process; closes all files, because an inherited descriptor would keep a lock.
[[noreturn]] void guard(pid_t program, const Child& child) {
  ::close_range(0, ~0u, 0);
  ::prctl(PR_SET_NAME, "trireme-guard");
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGCHLD);
  ::sigaddset(&awaited, SIGHUP);
  ::sigprocmask(SIG_SETMASK, &awaited, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  bool is_orphan = ::getppid() != child.starter;
  for (;;) {
    int status = 0;
    if (::waitpid(program, &status, WNOHANG) == program) {
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    const timespec limit{child.outlives_s, 0};
    const int signal = ::sigtimedwait(&awaited, nullptr, is_orphan ? &limit : nullptr);
    if (signal < 0 && errno == EAGAIN) ::kill(0, SIGKILL);
    is_orphan = is_orphan || signal == SIGHUP;
  }
}

// Runs between fork and exec. An error is reported through the pipe, which a successful exec
// closes.
[[noreturn]] void become(const Child& child, int pipe) {
  ::setpgid(0, 0);
  if (child.follows) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != child.starter) ::_exit(127);
  }
  if (child.outlives_s > 0) {
    if (const pid_t program = ::fork(); program > 0) guard(program, child);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (redirect_all(child.output)) {
    ::execvpe(child.words.front(), child.words.data(), child.variables.data());
  }
  const int reason = errno;
  if (::write(pipe, &reason, sizeof(reason)) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

StartedProcess::StartedProcess(const std::vector<std::string>& words, const Options& options)
    : ends_with_us_(options.ends_with_us) {
  std::vector<std::string> program = words;
  std::vector<std::string> environment = environment_and(options.variables);
  const Child child{.words = pointers(program),
                    .variables = pointers(environment),
                    .output = options.output.empty() ? nullptr : options.output.c_str(),
                    .starter = ::getpid(),
                    .follows = options.ends_with_us,
                    .outlives_s = options.outlives_us_s};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentError(say("cannot start ", words.front(), ": ", std::strerror(errno)));
  }
  id_ = ::fork();
  if (id_ == 0) become(child, ends[1]);
  int reason = id_ < 0 ? errno : 0;
  ::close(ends[1]);
  if (id_ > 0 && ::read(ends[0], &reason, sizeof(reason)) < 0) reason = errno;
  ::close(ends[0]);
  if (reason == 0) return;
  if (id_ > 0) ::waitpid(id_, nullptr, 0);
  throw EnvironmentError(say("cannot start ", words.front(), ": ", std::strerror(reason)));
}

StartedProcess::~StartedProcess() {
  if (ended() || !ends_with_us_) return;
  signal(SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> StartedProcess::ended() {
  int status = 0;
  if (!code_ && ::waitpid(id_, &status, WNOHANG) == id_) {
    was_killed_ = !WIFEXITED(status);
    code_ = was_killed_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return code_;
}

void StartedProcess::signal(int number) const {
  if (!code_) ::kill(id_, number);
}

void StartedProcess::signal_group(int number) const {
  if (!code_) ::kill(-id_, number);
}

}  // namespace trireme
