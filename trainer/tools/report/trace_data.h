#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Activity of the ranks in a traced step, from trace-RANK.json. Times are in milliseconds since the
// start of the step on the same rank; clocks of different nodes are not compared.
struct TracedSpan {
  std::string name;      // "0F3": stage 0, forward, micro-batch 3
  std::string category;  // compute, communication, idle, step
  double start = 0, end = 0;
};

struct TracedRank {
  int rank = 0;
  std::string name;                                   // "rank 0 (pipeline 0, tensor 0)"
  std::vector<TracedSpan> main;                       // main thread
  std::vector<TracedSpan> device, overlapped, parts;  // device; overlapped; parts of the step
  // Medians over all traced steps but the first, in milliseconds per step.
  double step_ms = 0, work_ms = 0, wait_ms = 0;
};

struct TracedStep {
  std::int64_t step = 0;
  double length_ms = 0;  // of the slowest rank
  std::vector<TracedRank> ranks;
  std::size_t left_out = 0;  // ranks beyond the first kMostRanks
  static constexpr std::size_t kMostRanks = 64;
};

// The step of median length of those traced by rank 0; nullopt if no trace can be read.
std::optional<TracedStep> read_traces(const std::filesystem::path& run_folder);

}  // namespace trireme
