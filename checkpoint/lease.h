#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme::checkpoint {

// The right to write into a run folder: one process at a time has it, as long as
// the object lives. LEASE.json names the holder; its file lock proves that the
// holder lives, so that a lease survives nobody: after a kill -9 or a reboot the
// next run takes over. How many holders there were outlives them all, in the file
// `incarnation` beside it. Throws CheckpointError with the holder's name when another
// process has it.
class Lease {
 public:
  // `job` is the batch system's id for this process, or empty.
  explicit Lease(const std::filesystem::path& run_dir, const std::string& job = {});
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // False once somebody removed or replaced the lease file: stop writing then.
  bool held() const;
  // Which of the run folder's holders this is, from 1: fences what an earlier one still writes.
  std::int64_t incarnation() const { return incarnation_; }
  // The dead holder this lease was taken from, in words; empty when there was none.
  const std::string& taken_from() const { return taken_from_; }

 private:
  bool lock() const;
  bool take(const std::string& job);  // false: try again with the file that is there now

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t incarnation_ = 0;
  std::string taken_from_;
};

// Who holds the run folder's lease just now, in words; empty when nobody does. It is asked without
// a lock wherever a run that starts at that moment could meet it.
std::string lease_holder(const std::filesystem::path& run_dir);

}  // namespace trireme::checkpoint
