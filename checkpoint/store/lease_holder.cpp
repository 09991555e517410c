#include "checkpoint/store/lease_holder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>

#include "checkpoint/format/names.h"
#include "checkpoint/store/lease.h"
#include "model/base/host_name.h"
#include "model/base/json.h"

namespace trireme::checkpoint {

void json_fields(auto& f, LeaseHolder& holder) {
  auto term_ms = static_cast<std::int64_t>(holder.term_s * 1e3);
  f("host", holder.host, {.most = 256});
  f("boot", holder.boot, {.most = 64});
  f("pid", holder.pid, {.most = 1u << 30});
  f("job", holder.job, {.most = 64});
  f("restarts", holder.restarts, {.most = 1u << 30});
  f("incarnation", holder.incarnation, {.most = std::uint64_t{1} << 40});
  f("since", holder.since, {.most = 64});
  f("term_ms", term_ms, {.most = 86'400'000});
  f("uuid", holder.uuid, {.most = 64});
  if (f.kReads) holder.term_s = static_cast<double>(term_ms) / 1e3;
}

namespace {

namespace fs = std::filesystem;

std::string boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  std::array<char, 36> text{};
  const int descriptor = ::open(kPath, O_RDONLY | O_CLOEXEC);
  const bool read = descriptor >= 0 && ::read(descriptor, text.data(), text.size()) == 36;
  if (descriptor >= 0) ::close(descriptor);
  return read ? std::string(text.data(), text.size()) : "unknown";
}

// Killed but not yet reaped by its parent: it holds nothing.
bool is_zombie(std::int64_t pid) {
  std::ifstream file(say("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text, '\0');  // throws nothing if the process ends meanwhile
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text.compare(name_end + 2, 1, "Z") == 0;
}

}  // namespace

LeaseHolder LeaseHolder::own() {
  LeaseHolder holder;
  holder.host = own_host_name();
  holder.boot = boot_id();
  holder.pid = ::getpid();
  holder.since = now_text();
  holder.uuid = new_uuid();
  return holder;
}

std::string LeaseHolder::words() const {
  return say("process ", pid, " on ", host, job.empty() ? "" : ", job " + job, ", since ", since);
}

std::string LeaseHolder::text() const {
  return json_text(*this, 2) + "\n";
}

bool LeaseHolder::is_on_this_kernel() const {
  return boot == boot_id();
}

bool LeaseHolder::process_has_ended() const {
  if (is_zombie(pid)) return true;
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

std::optional<LeaseHolder> read_lease_holder(int descriptor) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return valid_json<LeaseHolder>(text, JsonKeys::kAny);
}

bool is_locked(int descriptor) {
  const bool taken = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  return !taken && errno == EWOULDBLOCK;  // closing it releases the lock
}

std::int64_t renewed_at_ns(const fs::path& path) {
  // Network file systems answer from a cache unless the file is reopened.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return 0;
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  ::close(descriptor);
  if (!known) return 0;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::string lease_holder(const fs::path& run_dir) {
  const fs::path path = run_dir / "LEASE.json";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return "";
  const std::optional<LeaseHolder> holder = read_lease_holder(descriptor);
  bool lives = false;
  if (!holder) {
    lives = is_locked(descriptor);  // being acquired, or torn by a crash
  } else if (holder->is_on_this_kernel()) {
    // Its pid may have been reused; and other processes of the run may be alive.
    lives = !holder->process_has_ended() && is_locked(descriptor);
  } else {
    // The lock may be visible on its own node only.
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const double age =
        static_cast<double>(now.tv_sec) - static_cast<double>(renewed_at_ns(path)) * 1e-9;
    lives = age < holder->term_s || is_locked(descriptor);
  }
  ::close(descriptor);
  if (!lives) return "";
  return holder ? holder->words() : "another process";
}

}  // namespace trireme::checkpoint
