#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace trireme::checkpoint {

// A process that works for this one while this one goes on. It is forked early, while its
// parent is small. Memory shared before it was made is shared with it. It dies with its
// parent; whatever kills or breaks it, the one who asked is told, and the next request starts
// another. One request at a time.
class WriterProcess {
 public:
  // Runs in the process; what in_child() says of children holds for it.
  using Serve = std::function<std::string(const std::string& request)>;
  explicit WriterProcess(Serve serve);
  ~WriterProcess();
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  void start(const std::string& request);
  bool busy() const { return busy_; }
  // Whether result() would return at once.
  bool done();
  // What was returned or thrown; EnvironmentError when the process died over it.
  std::string result();

  pid_t id() const { return process_; }

 private:
  void launch();
  void end();
  // Receives what has come; all of the answer if it may `wait`.
  void receive(bool wait);
  bool whole() const;

  Serve serve_;
  pid_t process_ = -1;
  int socket_ = -1;
  bool busy_ = false;
  bool died_ = false;
  std::string answer_;  // as far as it has come: its length, then itself
};

}  // namespace trireme::checkpoint
