#include "trainer/telemetry/record_file.h"

#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace trireme {

namespace {

// Exclusive lock on a file that several processes write. Waits at most a second for a process that
// is stopped while it holds the lock: then the record is written without it.
class WriteLock {
 public:
  explicit WriteLock(const File& file) : file_(file) {
    constexpr int kMostTries = 1000;
    constexpr timespec kBetween{.tv_sec = 0, .tv_nsec = 1'000'000};
    for (int tries = 0; ::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0; ++tries) {
      if ((errno != EWOULDBLOCK && errno != EINTR) || tries == kMostTries) return;
      ::nanosleep(&kBetween, nullptr);
    }
  }
  ~WriteLock() { ::flock(file_.descriptor(), LOCK_UN); }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  const File& file_;
};

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& path, std::uint64_t waiting_limit,
                       Finish finish)
    : file_(finish ? File::open_read_append(path) : File::open_append(path)),
      size_(file_.size()),
      waiting_limit_(waiting_limit),
      finish_(std::move(finish)) {}

RecordFile::~RecordFile() {
  const std::lock_guard lock(mutex_);
  write_waiting();
  if (!waiting_.empty()) {
    log_warning("{}: {} records were not written and are lost", file_.path().string(),
                waiting_.size());
  }
}

void RecordFile::append(std::string record) {
  const std::lock_guard lock(mutex_);
  waiting_bytes_ += record.size();
  waiting_.push_back(std::move(record));
  write_waiting();
  while (waiting_bytes_ > waiting_limit_ && !waiting_.empty()) drop_oldest();
}

bool RecordFile::sync() {
  const std::lock_guard lock(mutex_);
  write_waiting();
  if (!waiting_.empty()) return false;
  // not supported by this file
  if (::fsync(file_.descriptor()) == 0 || errno == EINVAL) return true;
  warn_failure(errno);
  return false;
}

std::uint64_t RecordFile::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

std::uint64_t RecordFile::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void RecordFile::write_waiting() {
  std::optional<WriteLock> lock;
  if (finish_ && !waiting_.empty()) {
    lock.emplace(file_);
    if (!torn_) size_ = file_.size();  // others have written
  }
  while (!waiting_.empty()) {
    if (torn_ && !cut_to_whole_records()) return;
    const std::string& record = waiting_.front();
    if (!write_at_end(finish_ ? finish_(file_, record) : record)) return;
    waiting_bytes_ -= waiting_.front().size();
    waiting_.pop_front();
  }
  if (failing_) log_recovery();
}

bool RecordFile::write_at_end(std::string_view record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = ::write(file_.descriptor(), record.data() + done, record.size() - done);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
      continue;
    }
    const int reason = written < 0 ? errno : ENOSPC;
    if (reason == EINTR) continue;
    // Removes the part that was written, so that the next record does not follow it on the same
    // line.
    torn_ = done > 0;
    if (torn_) cut_to_whole_records();
    warn_failure(reason);
    return false;
  }
  size_ += record.size();
  return true;
}

bool RecordFile::cut_to_whole_records() {
  torn_ = ::ftruncate(file_.descriptor(), static_cast<off_t>(size_)) != 0;
  return !torn_;
}

std::string record_text(const std::filesystem::path& path) {
  constexpr std::size_t kPart = 1u << 20;
  const File file = File::open_read(path);
  std::string text;
  for (std::size_t size = 0;;) {
    text.resize(size + kPart);
    const ssize_t got =
        ::pread(file.descriptor(), text.data() + size, kPart, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path, errno);
    size += static_cast<std::size_t>(got);
    if (got > 0) continue;
    text.resize(size);
    return text;
  }
}

void RecordFile::drop_oldest() {
  waiting_bytes_ -= waiting_.front().size();
  waiting_.pop_front();
  if (lost_++ == 0) {
    log_warning("{}: more than {} bytes are buffered: dropping the oldest records",
                file_.path().string(), waiting_limit_);
  }
}

void RecordFile::warn_failure(int reason) {
  if (std::exchange(failing_, true)) return;
  log_warning("cannot write {}: {}; training continues, records are buffered in memory",
              file_.path().string(), std::strerror(reason));
}

void RecordFile::log_recovery() {
  failing_ = false;
  log_info("{} is writable again; records lost so far: {}", file_.path().string(), lost_);
}

}  // namespace trireme
