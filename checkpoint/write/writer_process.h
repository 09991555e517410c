#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace trireme::checkpoint {

// A helper process that serves requests while this process continues. It is forked early, while its
// parent is small, and shares memory that was shared before the fork. It dies with its parent. If
// it crashes or is killed, the pending request fails and the next request starts a new process. One
// request at a time.
class WriterProcess {
 public:
  // Runs in the helper process; the restrictions of in_child() apply.
  using Serve = std::function<std::string(const std::string& request)>;
  explicit WriterProcess(Serve serve);
  ~WriterProcess();
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  void start(const std::string& request);
  bool busy() const { return busy_; }
  // Whether result() would not block.
  bool done();
  // Result or exception of the request; throws EnvironmentError if the process died.
  std::string result();

  pid_t id() const { return process_; }

 private:
  void launch();
  void end();
  // Receives available data; the whole answer if it may `wait`.
  void receive(bool wait);
  bool whole() const;

  Serve serve_;
  pid_t process_ = -1;
  int socket_ = -1;
  bool busy_ = false;
  bool died_ = false;
  std::string answer_;  // received so far: length, then contents
};

}  // namespace trireme::checkpoint
