#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// A child process in a process group of its own: signals that a terminal sends to the foreground
// group (Ctrl-C) do not reach it.
class StartedProcess {
 public:
  struct Options {
    std::vector<std::string> variables = {};  // "NAME=value", added to this process's environment
    std::filesystem::path output = {};  // its output is appended to this file; empty: inherited
    // If true, the destructor kills it, and it receives SIGTERM when this process or the starting
    // thread dies. Otherwise it outlives both.
    bool ends_with_us = false;
    // If not 0: its process group is killed this many seconds after this process or the starting
    // thread has died. A guard process in between does this and has the id(); only signal_group()
    // reaches the program.
    int outlives_us_s = 0;
  };
  // Throws EnvironmentError if the program cannot be started or the output file cannot be opened.
  StartedProcess(const std::vector<std::string>& words, const Options& options);
  ~StartedProcess();
  StartedProcess(const StartedProcess&) = delete;
  StartedProcess& operator=(const StartedProcess&) = delete;

  // Exit code, 128 + n if signal n killed it; nullopt while it runs. Does not block.
  std::optional<int> ended();
  // Whether it was killed by a signal itself, whatever it reported about its own children.
  bool was_killed() const { return was_killed_; }
  void signal(int number) const;  // no effect after it has exited
  // Signals its whole process group.
  void signal_group(int number) const;
  pid_t id() const { return id_; }

 private:
  pid_t id_ = -1;
  bool ends_with_us_;
  std::optional<int> code_;
  bool was_killed_ = false;
};

}  // namespace trireme
