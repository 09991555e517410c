#pragma once
#include <filesystem>

namespace trireme {

// The right to supervise the run of a folder: one process of all has it, as long as the object
// lives. Throws CheckpointError with the holder's name when another has it.
class SupervisorLock {
 public:
  explicit SupervisorLock(const std::filesystem::path& run_dir);
  ~SupervisorLock();
  SupervisorLock(const SupervisorLock&) = delete;
  SupervisorLock& operator=(const SupervisorLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace trireme
