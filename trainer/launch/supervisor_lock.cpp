#include "trainer/launch/supervisor_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/host_name.h"

namespace trireme {

SupervisorLock::SupervisorLock(const std::filesystem::path& run_dir)
    : path_(run_dir / "supervisor") {
  make_folders(run_dir);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw EnvironmentError(say("cannot open ", path_.string(), ": ", std::strerror(errno)));
  }
  std::array<char, 256> text{};
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const ssize_t size = ::pread(descriptor_, text.data(), text.size() - 1, 0);
    ::close(descriptor_);
    std::string holder = size > 0 ? text.data() : "another process";
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    throw CheckpointError(say(run_dir.string(), " is supervised by ", holder,
                              ". Wait for it, end it, or choose another job.dump_folder"));
  }
  const std::string own = say("process ", ::getpid(), " on ", own_host_name(), "\n");
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, own.data(), own.size(), 0) != static_cast<ssize_t>(own.size())) {
    const int reason = errno;
    ::close(descriptor_);
    throw EnvironmentError(say("cannot write ", path_.string(), ": ", std::strerror(reason)));
  }
}

SupervisorLock::~SupervisorLock() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace trireme
