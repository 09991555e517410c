#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Continuation after the time limit: requeue of the same job, the next job of an array, or the next
// job of the same name.
enum class SlurmChain : std::uint8_t { kRequeue, kArray, kSingleton };

// A run as a Slurm job.
struct SlurmJob {
  std::string name;
  std::filesystem::path run_folder, checkpoint_folder;
  std::vector<std::string> command;  // program and arguments of one rank or, if
  bool is_supervised = false;        // `is_supervised`, of the supervisor
  std::int64_t nodes = 1;
  std::int64_t spares = 0;  // spare nodes for the supervisor
  std::int64_t ranks_per_node = 1;
  std::int64_t cores = 1;      // per rank
  std::int64_t gpus = 0;       // per node; 0: not requested
  std::string time;            // in Slurm format; empty: limit of the partition
  std::string partition;       // empty: default partition
  std::int64_t warning = 180;  // seconds before the time limit at which the run is signaled
  SlurmChain chain = SlurmChain::kRequeue;
  std::int64_t jobs = 5;             // in an array
  std::vector<std::string> options;  // further sbatch options
};

// Fills in scripts/slurm/train.sbatch. Throws ConfigError for values with control characters.
std::string slurm_script(const SlurmJob& job);

// Seconds of a time limit in any of Slurm's forms: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds.
// Throws ConfigError for anything else.
std::int64_t slurm_seconds(const std::string& time);

}  // namespace trireme
