#pragma once
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/file_faults/record.h"

namespace trireme::file_faults {

// What goes wrong when, told by the environment:
//   FILE_FAULTS_UNDER  an absolute folder; what is not in it is left alone
//   FILE_FAULTS_STATE  a file that all processes of the job count in; none other may have used it
//   FILE_FAULTS_LOG    a file that gets a Record of every operation, in order; may be absent
//   FILE_FAULTS        rules ACTION,OPERATION,COUNT,PATTERN[,MICROSECONDS] joined by '+'
// A rule injects its fault once, before the COUNT-th operation on a path below the folder that the
// glob PATTERN fits, counted over all processes of the job together.
//   ACTION     kill-self, kill-rank (the process that the operation's one descends from by fork),
//              kill-rank-N (that one of mpirun's), kill-job (all that were preloaded), short
//              (half of a write), or an errno by name
//   OPERATION  open (for writing), write, resize, sync, rename, folder, remove, close, any
// Kills come MICROSECONDS later, by a process of its own, while the operation goes on.
class Control {
 public:
  Control();

  bool concerns(std::string_view path) const;
  struct Fault {
    int error = 0;
    bool half = false;
  };
  // Counts the operation; does not return when it is this process that dies.
  Fault before(std::string_view operation, const std::string& path);

  bool logs() const { return !log_.empty(); }
  // Makes what happens until end() one with its record.
  int begin() const;
  void end(int log, Kind kind, const std::string& path, const std::string& other,
           std::int64_t offset, std::uint64_t size, std::span<const std::byte> bytes) const;
  void abandon(int log) const;

  void register_process();

 private:
  struct Rule {
    std::string action, operation, pattern;
    std::uint32_t count = 0;
    unsigned delay = 0;
  };
  static constexpr std::size_t kMostRules = 64, kMostProcesses = 8192, kMostRanks = 64;
  struct Shared {
    std::array<std::atomic<std::uint32_t>, kMostRules> counts;
    std::array<std::atomic<pid_t>, kMostRanks> ranks;
    std::atomic<std::uint32_t> processes;
    std::array<std::atomic<pid_t>, kMostProcesses> pids;
  };

  void inject(const Rule& rule);
  void kill_now(const std::string& action, pid_t self);

  std::string under_, log_;
  std::vector<Rule> rules_;
  Shared* shared_ = nullptr;
  pid_t rank_ = 0;
};

}  // namespace trireme::file_faults
