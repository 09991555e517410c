#include "tests/file_faults/control.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trireme::file_faults {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "file_faults: %s: %s\n", what, std::strerror(errno));
  ::_exit(99);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> parts_of(const std::string& text, char between) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

constexpr const char* kOneRank = "kill-rank-";

int error_of(const std::string& name) {
  if (name == "ENOSPC") return ENOSPC;
  if (name == "EIO") return EIO;
  if (name == "EACCES") return EACCES;
  if (name == "EROFS") return EROFS;
  if (name == "EDQUOT") return EDQUOT;
  return 0;
}

}  // namespace

Control::Control()
    : under_(variable("FILE_FAULTS_UNDER")), log_(variable("FILE_FAULTS_LOG")), rank_(::getpid()) {
  for (const std::string& text : parts_of(variable("FILE_FAULTS"), '+')) {
    const std::vector<std::string> parts = parts_of(text, ',');
    errno = EINVAL;
    if (parts.size() < 4 || rules_.size() == kMostRules) give_up(text.c_str());
    const bool known = parts[0].rfind("kill-", 0) == 0 || parts[0] == "short" || error_of(parts[0]);
    if (!known) give_up(text.c_str());
    rules_.push_back({parts[0], parts[1], parts[3],
                      static_cast<std::uint32_t>(std::stoul(parts[2])),
                      parts.size() > 4 ? static_cast<unsigned>(std::stoul(parts[4])) : 0u});
  }
  const std::string state = variable("FILE_FAULTS_STATE");
  // Not by the C library's names, which are ours and would ask for this object.
  const long opened =
      ::syscall(SYS_openat, AT_FDCWD, state.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const int file = static_cast<int>(opened);
  if (file < 0 || ::syscall(SYS_ftruncate, file, sizeof(Shared)) != 0) give_up(state.c_str());
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) give_up(state.c_str());
  ::syscall(SYS_close, file);
  shared_ = static_cast<Shared*>(memory);  // zeros are its first state
  const std::string rank = variable("OMPI_COMM_WORLD_RANK");
  shared_->ranks.at(rank.empty() ? 0 : std::stoul(rank)) = rank_;
  register_process();
}

void Control::register_process() {
  const std::uint32_t place = shared_->processes.fetch_add(1);
  if (place < kMostProcesses) shared_->pids[place] = ::getpid();
}

bool Control::concerns(std::string_view path) const {
  if (under_.empty() || path.substr(0, under_.size()) != under_) return false;
  return path.size() == under_.size() || path[under_.size()] == '/';
}

Control::Fault Control::before(std::string_view operation, const std::string& path) {
  Fault fault;
  const std::string below = path.size() > under_.size() ? path.substr(under_.size() + 1) : ".";
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (rule.operation != "any" && rule.operation != operation) continue;
    if (::fnmatch(rule.pattern.c_str(), below.c_str(), 0) != 0) continue;
    if (shared_->counts[i].fetch_add(1) + 1 != rule.count) continue;
    fault.half = fault.half || rule.action == "short";
    if (const int error = error_of(rule.action)) fault.error = error;
    if (rule.action.rfind("kill-", 0) == 0) inject(rule);
  }
  return fault;
}

void Control::inject(const Rule& rule) {
  const pid_t self = ::getpid();
  if (rule.delay == 0) return kill_now(rule.action, self);
  if (::fork() != 0) return;
  ::close_range(0, ~0u, 0);
  ::usleep(rule.delay);
  kill_now(rule.action, self);
  ::_exit(0);
}

void Control::kill_now(const std::string& action, pid_t self) {
  if (action == "kill-rank") ::kill(rank_, SIGKILL);
  if (action.rfind(kOneRank, 0) == 0) {
    const pid_t other = shared_->ranks.at(std::stoul(action.substr(std::strlen(kOneRank))));
    if (other > 1) ::kill(other, SIGKILL);
  }
  if (action == "kill-job") {
    const std::size_t known = std::min<std::size_t>(shared_->processes, kMostProcesses);
    for (std::size_t i = 0; i < known; ++i) {
      const pid_t pid = shared_->pids[i];
      // A process of ours that has ended may have left its number to a stranger.
      const bool ours = pid > 1 && ::getsid(pid) == ::getsid(0);
      if (ours && pid != self && pid != ::getpid()) ::kill(pid, SIGKILL);
    }
  }
  if (action == "kill-self" || action == "kill-job") ::kill(self, SIGKILL);
}

// Opened anew each time: the program closes descriptors that it does not know.
int Control::begin() const {
  const int log = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log_.c_str(),
                                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (log < 0) give_up(log_.c_str());
  while (::flock(log, LOCK_EX) != 0) {
    if (errno != EINTR) give_up(log_.c_str());
  }
  return log;
}

void Control::end(int log, Kind kind, const std::string& path, const std::string& other,
                  std::int64_t offset, std::uint64_t size, std::span<const std::byte> bytes) const {
  Record record;
  record.kind = kind;
  record.offset = offset;
  record.size = size;
  record.path_bytes = static_cast<std::uint32_t>(path.size());
  record.other_bytes = static_cast<std::uint32_t>(other.size());
  std::string text(reinterpret_cast<const char*>(&record), sizeof record);
  text += path + other;
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (::syscall(SYS_write, log, text.data(), text.size()) != static_cast<long>(text.size())) {
    give_up(log_.c_str());
  }
  abandon(log);
}

void Control::abandon(int log) const {
  ::syscall(SYS_close, log);
}

}  // namespace trireme::file_faults
