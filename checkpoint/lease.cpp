#include "checkpoint/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>

#include "checkpoint/json_object.h"
#include "checkpoint/names.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMostHolders = std::uint64_t{1} << 40;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Tells this run of the kernel from every other, on this machine or another.
std::string boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  std::array<char, 36> text{};
  const int descriptor = ::open(kPath, O_RDONLY | O_CLOEXEC);
  const bool read = descriptor >= 0 && ::read(descriptor, text.data(), text.size()) == 36;
  if (descriptor >= 0) ::close(descriptor);
  return read ? std::string(text.data(), text.size()) : "unknown";
}

struct Holder {
  std::string host, boot, job, since;
  std::int64_t pid = 0, incarnation = 0;

  std::string words() const {
    return say("process ", pid, " on ", host, job.empty() ? "" : ", job " + job, ", since ", since);
  }
};

// The holder a lease file names; nullopt when the file is empty or damaged, as after
// a crash in the middle of taking it.
std::optional<Holder> read_holder(int descriptor, const fs::path& path) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  try {
    const json parsed = parse_json(text, path.string());
    JsonObject object(parsed, path.string());
    Holder holder;
    holder.host = object.text("host", 256);
    holder.boot = object.text("boot", 64);
    holder.job = object.text("job", 64);
    holder.since = object.text("since", 64);
    holder.pid = static_cast<std::int64_t>(object.number("pid", 1u << 30));
    object.text("uuid", 64);
    if (parsed.contains("incarnation")) {  // not in files of earlier versions
      holder.incarnation = static_cast<std::int64_t>(object.number("incarnation", kMostHolders));
    }
    return holder;
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

// How many holders the run folder has had, as the last of them left it; 0 when none did.
std::int64_t counted_holders(const fs::path& file) {
  std::error_code why;
  if (!fs::is_regular_file(file, why)) return 0;
  std::uint64_t count = 0;
  try {
    const std::string text = read_text(file, /*limit=*/64);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
    if (parsed.ec != std::errc() || count > kMostHolders) return 0;
  } catch (const EnvironmentError&) {
    return 0;
  }
  return static_cast<std::int64_t>(count);
}

void write_holder(int descriptor, const fs::path& path, const std::string& job,
                  std::int64_t incarnation) {
  const json holder = {{"host", host_name()}, {"boot", boot_id()},          {"pid", ::getpid()},
                       {"job", job},          {"incarnation", incarnation}, {"since", now_text()},
                       {"uuid", new_uuid()}};
  const std::string text = holder.dump(2) + "\n";
  const bool written =
      ::ftruncate(descriptor, 0) == 0 &&
      ::pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::fsync(descriptor) == 0;
  if (!written) {
    throw EnvironmentError(say("cannot write ", path.string(), ": ", std::strerror(errno)));
  }
}

bool is_at(int descriptor, const fs::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

bool is_locked(int descriptor) {
  const bool taken = ::flock(descriptor, LOCK_SH | LOCK_NB) == 0;
  return !taken && errno == EWOULDBLOCK;  // closing it gives the lock back
}

}  // namespace

std::string lease_holder(const fs::path& run_dir) {
  const fs::path path = run_dir / "LEASE.json";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return "";
  const std::optional<Holder> holder = read_holder(descriptor, path);
  bool lives = false;
  if (!holder) {
    lives = is_locked(descriptor);  // it is being taken, or a crash has torn it
  } else if (holder->boot == boot_id()) {
    const bool gone = ::kill(static_cast<pid_t>(holder->pid), 0) != 0 && errno == ESRCH;
    lives = !gone && is_locked(descriptor);  // the number may be another process's by now
  } else if (holder->host != host_name()) {
    lives = is_locked(descriptor);
  }
  ::close(descriptor);
  if (!lives) return "";
  return holder ? holder->words() : "another process";
}

Lease::Lease(const fs::path& run_dir, const std::string& job) : path_(run_dir / "LEASE.json") {
  make_folders(run_dir);
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      throw EnvironmentError(say("cannot open ", path_.string(), ": ", std::strerror(errno)));
    }
    try {
      if (take(job)) return;
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
    ::close(descriptor_);  // its holder ended and removed it between our open and lock
  }
}

// A killed holder's writer process may outlive it by a moment and has the lock, too.
bool Lease::lock() const {
  constexpr int kTries = 500;
  constexpr unsigned kPause = 10'000;  // microseconds
  for (int attempt = 1;; ++attempt) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      throw EnvironmentError(say("cannot lock ", path_.string(), ": ", std::strerror(errno)));
    }
    const std::optional<Holder> holder = read_holder(descriptor_, path_);
    const bool gone = holder && holder->boot == boot_id() &&
                      ::kill(static_cast<pid_t>(holder->pid), 0) != 0 && errno == ESRCH;
    if (!gone || attempt == kTries) return false;
    ::usleep(kPause);
  }
}

bool Lease::take(const std::string& job) {
  const bool locked = lock();
  const std::optional<Holder> holder = read_holder(descriptor_, path_);
  if (!locked) {
    throw CheckpointError(say(path_.parent_path().string(), " is being written by ",
                              holder ? holder->words() : "another process",
                              ". Wait for it, end it, or choose another job.dump_folder"));
  }
  if (!is_at(descriptor_, path_)) return false;
  // A free lock proves a dead holder only to the kernel that kept the lock.
  if (holder && holder->boot != boot_id() && holder->host != host_name()) {
    throw CheckpointError(say(path_.parent_path().string(), " is held by ", holder->words(),
                              ", which cannot be checked from here. If it is gone, remove ",
                              path_.string(), " and start again"));
  }
  if (holder) taken_from_ = holder->words();
  const fs::path count = path_.parent_path() / "incarnation";
  incarnation_ = 1 + std::max(holder ? holder->incarnation : 0, counted_holders(count));
  replace_text(count, std::to_string(incarnation_) + "\n");
  write_holder(descriptor_, path_, job, incarnation_);
  return true;
}

Lease::~Lease() {
  if (held()) ::unlink(path_.c_str());
  ::close(descriptor_);
}

bool Lease::held() const {
  return is_at(descriptor_, path_);
}

}  // namespace trireme::checkpoint
