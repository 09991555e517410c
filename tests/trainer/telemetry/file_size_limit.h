#pragma once
#include <sys/resource.h>

#include <csignal>
#include <stdexcept>

namespace trireme {

// While it lives no file of this process may grow beyond `bytes`: the kernel then takes
// a part of a write and refuses the rest, as on a disk that runs full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit now = before_;
    now.rlim_cur = bytes;
    if (::setrlimit(RLIMIT_FSIZE, &now) != 0) throw std::runtime_error("cannot limit files");
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit before_ {};
  void (*handler_)(int);
};

}  // namespace trireme
