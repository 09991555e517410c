#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// A program that this process has started, in a process group of its own: what a terminal sends
// to the foreground, such as its Ctrl-C, does not reach it.
class StartedProcess {
 public:
  struct Options {
    std::vector<std::string> variables = {};  // "NAME=value", beside this process's environment
    std::filesystem::path output = {};        // what it prints is added to; empty: to our own
    // Whether it is killed with the object, and asked to end (SIGTERM) when this process dies, or
    // the thread that has started it. Otherwise it outlives both.
    bool ends_with_us = false;
    // Where not 0: how many seconds at most it outlives this process, or the thread that has
    // started it; then its group is killed. Another process of ours stands between to see to it,
    // and has its id(); only signal_group() reaches the program itself.
    int outlives_us_s = 0;
  };
  // Throws EnvironmentError where the first word is no program, or the output cannot be opened.
  StartedProcess(const std::vector<std::string>& words, const Options& options);
  ~StartedProcess();
  StartedProcess(const StartedProcess&) = delete;
  StartedProcess& operator=(const StartedProcess&) = delete;

  // Its exit code, 128 + n where signal n ended it; nullopt while it runs. Does not wait.
  std::optional<int> ended();
  // Whether a signal ended it, whatever it told of those it had started itself.
  bool was_killed() const { return was_killed_; }
  void signal(int number) const;  // while it runs
  // Also to what it has started itself.
  void signal_group(int number) const;
  pid_t id() const { return id_; }

 private:
  pid_t id_ = -1;
  bool ends_with_us_;
  std::optional<int> code_;
  bool was_killed_ = false;
};

}  // namespace trireme
