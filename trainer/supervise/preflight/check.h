#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/sequencer.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"

// The preflight checks, one per source file. Arguments must outlive the checks.

namespace trireme::preflight {

// Measurements of a check on one rank: a JSON object of numbers and strings.
using Figures = nlohmann::ordered_json;

// Ranks that failed a check, and the reason.
struct Fault {
  std::vector<int> ranks;
  std::string why;
};

// One-line summary of all ranks' measurements, and the faults found.
struct Judgment {
  std::string text;
  std::vector<Fault> faults;
};

// A preflight check. `measure` runs on all ranks at the same time and may call collectives, the
// same ones on every rank; it throws an Error that describes a fault of its rank. If no rank threw,
// rank 0 calls `judge`.
struct Check {
  std::string name;
  std::function<Figures()> measure;
  std::function<Judgment(const std::vector<Figures>& by_rank)> judge;
};

// Indices of values below `share` times the median.
std::vector<int> below_median(const std::vector<double>& values, double share);

// The most frequent value and the indices of all other values. On a tie, the first of the most
// frequent values.
struct Majority {
  std::string value;
  std::vector<int> others;
};
Majority majority(const std::vector<std::string>& values);

// One number or string of each rank's measurements.
std::vector<double> numbers_of(const std::vector<Figures>& by_rank, const std::string& key);
std::vector<std::string> texts_of(const std::vector<Figures>& by_rank, const std::string& key);

// All ranks run the same binary, config text and shared libraries. If this check fails, the results
// of the others are meaningless.
Check same_program(const std::string& config_text);

// Launcher, hosts and tensor transport, which must be the same on all ranks.
Check launch(const World& world);

// The limit of open files is high enough for the number of ranks. Reports the limit of locked
// memory.
Check process_limits(int ranks);

// Reports the clock differences of the nodes; never fails. `all`: all ranks.
Check clocks(Communicator& all);

// The device selected by job.device, its memory, and its health from NVML: uncorrected ECC errors,
// throttled clocks, NVLinks that are down.
Check device_health(const std::string& name, int local_rank);

// A matmul in the run's dtype has exactly the expected bits, and no rank is slower than kSlow times
// the median. Runs for about `seconds`.
inline constexpr double kSlow = 0.8;
Check matrix_product(const std::string& dtype, Device device, double seconds, Communicator& all);

// For each parallel axis in use: an all-reduce over the group, or a message along the pipeline, has
// the expected bits. Measures latency and bandwidth.
Check axes(const RankGroups& groups, Device device, bool thorough);

// The memory plan fits the rank's device and its host; the memory tier and MPI's segments fit
// /dev/shm.
Check memory_room(const RunConfig& config, const World& world, const RankGroups& groups,
                  Device device);

// Files can be created, synced, renamed and locked in the run and checkpoint folders. `thorough`
// also measures the write rate and requires space for two checkpoints.
Check folders(const RunConfig& config, const RankGroups& groups, Device device, bool thorough);

// All ranks see the same token files, and sampled token ids are inside the vocabulary.
Check token_files(std::function<const data::SampleSource&()> open);

}  // namespace trireme::preflight
