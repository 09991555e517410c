#include "checkpoint/store/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "checkpoint/store/lease_holder.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/log.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::uint64_t kMostIncarnations = std::uint64_t{1} << 40;
constexpr int kRenewalsInATerm = 10;
constexpr Seconds kPoll{0.01};
// A new holder's file is empty for a moment; join() may race with a query of the holder.
constexpr double kGraceS = 0.5;
constexpr double kTellAfterS = 1;
// File servers keep the locks of a lost node for a while: NFS usually for 90 s.
constexpr double kTermsUntilLockIsFree = 4;
// More than one term, as the holder may have renewed the lease just before the first look.
constexpr double kTermsUntilDead = 1.2;
constexpr double kMostTermsForAnEnd = 10;
constexpr double kTermsOldIsDead = 3, kLookAtOldTerms = 0.4;

// An open file with the lease's name, locked or not; closed by the destructor.
class LeaseFile {
 public:
  explicit LeaseFile(int descriptor) : descriptor_(descriptor) {}
  LeaseFile(const LeaseFile&) = delete;
  LeaseFile& operator=(const LeaseFile&) = delete;
  ~LeaseFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

bool is_at(int descriptor, const fs::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(descriptor, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

// Incarnation recorded by the last holder of the run folder; 0 if there was none.
std::int64_t counted_incarnations(const fs::path& file) {
  std::error_code why;
  if (!fs::is_regular_file(file, why)) return 0;
  std::uint64_t count = 0;
  try {
    const std::string text = read_text(file, /*limit=*/64);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
    if (parsed.ec != std::errc() || count > kMostIncarnations) return 0;
  } catch (const EnvironmentError&) {
    return 0;
  }
  return static_cast<std::int64_t>(count);
}

// Temporary name next to `path` that the next run's sweep recognizes as a leftover.
fs::path temporary_beside(const fs::path& path) {
  std::random_device random;
  return path.string() + say(".tmp-", random(), random());
}

std::int64_t file_system_now_ns(const fs::path& path) {
  const fs::path probe = temporary_beside(path);
  File::create_new(probe).close();
  const std::int64_t now = renewed_at_ns(probe);
  ::unlink(probe.c_str());
  return now;
}

double since(Clock::time_point begun) {
  return Seconds(Clock::now() - begun).count();
}

enum class Locked : std::uint8_t { kYes, kByAnother, kReplacedMeanwhile };

// Acquires the exclusive lock, waiting for processes of holders that are being ended.
Locked lock(int descriptor, const fs::path& path, double term_s) {
  const Clock::time_point begun = Clock::now();
  const std::int64_t stamp = renewed_at_ns(path);
  for (bool told = false;; std::this_thread::sleep_for(kPoll)) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Locked::kYes;
    if (errno != EWOULDBLOCK && errno != EINTR) throw_file_error("lock", path, errno);
    if (!is_at(descriptor, path)) return Locked::kReplacedMeanwhile;
    const std::optional<LeaseHolder> holder = read_lease_holder(descriptor);
    double patience = kGraceS;
    if (holder && holder->is_on_this_kernel()) {
      // Processes of the holder are being ended; mpirun alone takes seconds.
      const double for_its_end =
          std::clamp(Lease::kUsualTermS, term_s, kMostTermsForAnEnd * term_s);
      patience = holder->process_has_ended() ? for_its_end : 0;
    } else if (holder) {
      if (renewed_at_ns(path) != stamp) return Locked::kByAnother;
      patience = kTermsUntilLockIsFree * holder->term_s;
    }
    if (since(begun) > patience) return Locked::kByAnother;
    if (!told && since(begun) > kTellAfterS) {
      told = true;
      log_info("{}: waiting up to {:.0f} s for the processes of {} to end",
               path.parent_path().string(), patience, holder->words());
    }
  }
}

// Whether the holder named in the locked file is dead, on whichever node it ran.
bool is_dead(const LeaseHolder& holder, const fs::path& path, const Lease::Job& job) {
  if (holder.is_on_this_kernel()) return true;  // otherwise it would have the lock
  if (!job.id.empty() && job.id == holder.job && job.restarts > holder.restarts) return true;
  const std::int64_t stamp = renewed_at_ns(path);
  const double age = static_cast<double>(file_system_now_ns(path) - stamp) * 1e-9;
  const double patience =
      holder.term_s * (age > kTermsOldIsDead * holder.term_s ? kLookAtOldTerms : kTermsUntilDead);
  log_info("{} was held by {}; checking for {:.1f} s whether its lease is still renewed",
           path.parent_path().string(), holder.words(), patience);
  for (const Clock::time_point begun = Clock::now(); since(begun) < patience;) {
    std::this_thread::sleep_for(kPoll);
    if (renewed_at_ns(path) != stamp) return false;
  }
  return true;
}

// Replaces `old` at `path` by a file of `holder` with our shared lock; -1 if another process was
// faster, which is possible where locks are local to a node.
int place(const LeaseHolder& holder, int old, const fs::path& path) {
  const fs::path temporary = temporary_beside(path);
  LeaseFile file(
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (file.get() < 0) throw_file_error("create", temporary, errno);
  const std::string text = holder.text();
  const bool ready =
      ::flock(file.get(), LOCK_SH | LOCK_NB) == 0 &&
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0;
  const bool is_ours = ready && is_at(old, path);
  if (!is_ours || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    if (ready && !is_ours) return -1;
    throw_file_error("write", path, reason);
  }
  sync_folder(path.parent_path());
  return file.release();
}

}  // namespace

Lease::Job Lease::Job::of_environment() {
  const char* id = std::getenv("SLURM_JOB_ID");
  const char* restarts = std::getenv("SLURM_RESTART_COUNT");
  return {id ? id : "", restarts ? std::strtol(restarts, nullptr, 10) : 0};
}

Lease::Lease(const fs::path& run_dir, double term_s, const Job& job, Renewal renewal)
    : path_(run_dir / "LEASE.json"), term_s_(term_s), job_(job), is_owner_(true) {
  make_folders(run_dir);
  for (;;) {
    const LeaseFile file(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (file.get() < 0) throw_file_error("open", path_, errno);
    const Locked locked = lock(file.get(), path_, term_s);
    if (locked == Locked::kReplacedMeanwhile) continue;
    const std::optional<LeaseHolder> holder = read_lease_holder(file.get());
    if (locked == Locked::kByAnother || (holder && !is_dead(*holder, path_, job))) {
      throw CheckpointError(say(run_dir.string(), " is being written by ",
                                holder ? holder->words() : "another process",
                                ". Wait for it, stop it, or choose another job.dump_folder"));
    }
    if (!is_at(file.get(), path_)) continue;  // the holder removed it between our open and lock
    if (!take_place_of(file.get(), holder ? holder->incarnation : 0)) continue;
    if (holder) taken_from_ = holder->words();
    break;
  }
  if (renewal == Renewal::kByThread) start_renewing();
}

std::unique_ptr<Lease> Lease::join(const fs::path& run_dir, const std::string& token) {
  std::unique_ptr<Lease> lease(new Lease);
  const fs::path path = run_dir / "LEASE.json";
  lease->path_ = path;
  lease->descriptor_ = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  bool locked = false;
  for (const Clock::time_point begun = Clock::now(); lease->descriptor_ >= 0 && !locked;) {
    locked = ::flock(lease->descriptor_, LOCK_SH | LOCK_NB) == 0;
    if (locked || since(begun) > kGraceS) break;
    std::this_thread::sleep_for(kPoll);
  }
  const std::optional<LeaseHolder> holder =
      locked ? read_lease_holder(lease->descriptor_) : std::nullopt;
  if (!holder || holder->uuid != token || !lease->held()) {
    throw CheckpointError(say(run_dir.string(),
                              ": the supervisor that started this process has lost "
                              "its lease",
                              holder ? " to " + holder->words() : "", "; nothing was written"));
  }
  lease->token_ = token;
  lease->incarnation_ = holder->incarnation;
  lease->term_s_ = holder->term_s;
  lease->start_renewing();
  return lease;
}

bool Lease::take_place_of(int old, std::int64_t incarnation) {
  const fs::path count = path_.parent_path() / "incarnation";
  const std::int64_t next = 1 + std::max(incarnation, counted_incarnations(count));
  replace_text(count, std::to_string(next) + "\n");
  LeaseHolder own = LeaseHolder::own();
  own.job = job_.id;
  own.restarts = job_.restarts;
  own.incarnation = next;
  own.term_s = term_s_;
  const int placed = place(own, old, path_);
  if (placed < 0) return false;
  const std::lock_guard guard(mutex_);
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = placed;
  incarnation_ = next;
  token_ = own.uuid;
  return true;
}

void Lease::begin_next() {
  if (held() && take_place_of(descriptor_, incarnation_)) return;
  throw CheckpointError(say(path_.parent_path().string(), ": the lease of this run is lost: ",
                            "LEASE.json was removed or now belongs to another run"));
}

void Lease::renew() {
  if (since(renewed_at_) * kRenewalsInATerm < term_s_) return;
  renewed_at_ = Clock::now();
  const std::lock_guard guard(mutex_);
  ::futimens(descriptor_, nullptr);  // a failed renewal is made up for by the next one
}

// A training step may take longer than a term.
void Lease::start_renewing() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are handled by other threads
  renewer_ = std::thread([this] {
    std::unique_lock guard(mutex_);
    while (!ends_.wait_for(guard, Seconds(term_s_ / kRenewalsInATerm), [this] { return ended_; })) {
      ::futimens(descriptor_, nullptr);
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Lease::~Lease() {
  if (renewer_.joinable()) {
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
    }
    ends_.notify_all();
    renewer_.join();
  }
  if (is_owner_ && held()) ::unlink(path_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Lease::held() const {
  const std::lock_guard guard(mutex_);
  return is_at(descriptor_, path_);
}

}  // namespace trireme::checkpoint
