#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// What a job that is out of time leaves to do, is done by: the same job once more, the next
// one of an array, or the next one of its name.
enum class SlurmChain : std::uint8_t { kRequeue, kArray, kSingleton };

// A run as a job of Slurm's.
struct SlurmJob {
  std::string name;
  std::filesystem::path run_folder, checkpoint_folder;
  std::vector<std::string> command;  // the program and its words, for one rank or, with
  bool is_supervised = false;        // `is_supervised`, for the one that starts the ranks
  std::int64_t nodes = 1;
  std::int64_t spares = 0;  // further nodes, for a supervisor to replace lost ones
  std::int64_t ranks_per_node = 1;
  std::int64_t cores = 1;      // for each rank
  std::int64_t gpus = 0;       // on each node; 0: none is asked for
  std::string time;            // as Slurm writes it; empty: the partition's
  std::string partition;       // empty: Slurm's own choice
  std::int64_t warning = 180;  // seconds before the time limit at which the run is asked to stop
  SlurmChain chain = SlurmChain::kRequeue;
  std::int64_t jobs = 5;             // in an array
  std::vector<std::string> options;  // further ones of sbatch's, as they are
};

// scripts/slurm/train.sbatch, filled in. Throws ConfigError for a text that no line of a job
// script can hold.
std::string slurm_script(const SlurmJob& job);

// Seconds of a time limit in any of Slurm's forms: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds.
// Throws ConfigError for anything else.
std::int64_t slurm_seconds(const std::string& time);

}  // namespace trireme
