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

// A file that only grows, by whole records, and never stops the run: when a write
// fails (full disk, quota, a network file system that is away) the part that did get
// in is cut off again, the failure is told once on stderr, and the records wait in
// memory, oldest first, until a later append finds room. Beyond `kWaitingBytes` the
// oldest waiting records are given up, counted, and the count is told.
// Safe to call from several threads. The destructor makes a last attempt.
class RecordFile {
 public:
  static constexpr std::uint64_t kWaitingBytes = 16u << 20;

  // What a record becomes when it is written, after what is in the file by then.
  using Finish = std::function<std::string(const File& file, const std::string& record)>;

  // Opens or creates; new records go after the present end. With `finish`, of a file that several
  // processes write, one at a time. Throws EnvironmentError when the file cannot be opened for
  // writing.
  explicit RecordFile(const std::filesystem::path& path,
                      std::uint64_t waiting_limit = kWaitingBytes, Finish finish = {});
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  void append(std::string record);
  // Makes what was appended survive a power cut; call before a checkpoint's commit.
  // False when records still wait or the file system refused (told once, too).
  bool sync();

  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t waiting() const;  // records not in the file yet
  std::uint64_t lost() const;     // records given up

 private:
  void write_waiting();
  bool write_at_end(std::string_view record);
  bool cut_to_whole_records();
  void give_up_oldest();
  void tell_failure(int reason);
  void tell_recovery();

  mutable std::mutex mutex_;
  File file_;
  std::uint64_t size_;  // bytes of whole records in the file
  std::uint64_t waiting_limit_;
  Finish finish_;
  std::deque<std::string> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t lost_ = 0;
  bool failing_ = false;
  bool torn_ = false;  // a part of a record is at the end and could not be cut off
};

// What such a file holds, although its writer may append to it or cut it in the meantime: a mapped
// one must not get shorter. Throws EnvironmentError naming the path.
std::string record_text(const std::filesystem::path& path);

}  // namespace trireme
