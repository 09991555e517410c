#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "model/base/file.h"

namespace trireme {

// An append-only file of whole records that never stops the run. If a write fails (full disk,
// quota, unavailable network file system), the partial record is truncated, one warning is logged,
// and records are buffered in memory until a later append succeeds. Beyond `waiting_limit` bytes
// the oldest buffered records are dropped and counted. Thread-safe. The destructor makes a last
// attempt to write.
class RecordFile {
 public:
  static constexpr std::uint64_t kWaitingBytes = 16u << 20;

  // Completes a record at the time it is written, given the current content of the file.
  using Finish = std::function<std::string(const File& file, const std::string& record)>;

  // Opens or creates the file; records are appended. `finish` is for a file that several processes
  // write: they take turns by a file lock. Throws EnvironmentError if the file cannot be opened for
  // writing.
  explicit RecordFile(const std::filesystem::path& path,
                      std::uint64_t waiting_limit = kWaitingBytes, Finish finish = {});
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  void append(std::string record);
  // Syncs appended records to the disk; call it before a checkpoint commit. Returns false if
  // records are still buffered or the sync failed (logged once).
  bool sync();

  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t waiting() const;  // buffered records
  std::uint64_t lost() const;     // dropped records

 private:
  void write_waiting();
  bool write_at_end(std::string_view record);
  bool cut_to_whole_records();
  void drop_oldest();
  void warn_failure(int reason);
  void log_recovery();

  mutable std::mutex mutex_;
  File file_;
  std::uint64_t size_;  // bytes of whole records in the file
  std::uint64_t waiting_limit_;
  Finish finish_;
  std::deque<std::string> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t lost_ = 0;
  bool failing_ = false;
  bool torn_ = false;  // the file ends with a partial record that could not be truncated
};

// Content of a record file. Safe while its writer appends to it or truncates it, unlike a memory
// map. Throws EnvironmentError with the path.
std::string record_text(const std::filesystem::path& path);

}  // namespace trireme
