#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// A metric over the steps of a run, in ascending order; NaN if it was not finite.
struct Series {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  bool empty() const { return steps.empty(); }
};

// The largest finite value, or 0.
double largest(const Series& series);

struct CheckpointEntry {
  std::int64_t step = 0;
  std::string name;
  std::uint64_t bytes = 0;
  bool is_latest = false;
};

// Result of an audit of the run's ledger.
struct AuditResult {
  bool is_clean = false;
  bool is_running = false;  // the run is still training
  std::string text;
};

// "expert_load" of metrics.jsonl, as it stands there.
struct RecordedExpertLoad {
  std::int64_t step = 0;
  nlohmann::ordered_json load = {};
};

// Contents of a run folder, as far as readable.
struct RunData {
  std::filesystem::path folder;
  bool is_running = false;                             // a process holds its lease
  std::map<std::string, Series> metrics;               // by key of metrics.jsonl
  std::optional<RecordedExpertLoad> expert_load = {};  // the last
  std::vector<nlohmann::ordered_json> events;
  std::string config_text;
  std::string model;                         // flavor or model_type; may be empty
  std::string description;                   // [job] description
  std::vector<CheckpointEntry> checkpoints;  // committed, by step
  std::optional<AuditResult> audit;          // not set by read_run
  std::vector<std::string> complaints;       // missing or damaged files, one sentence each

  const Series& series(const std::string& key) const;  // empty if it does not exist
};

// Reads a run folder and lists missing or damaged files in `complaints`. Throws ConfigError if the
// folder does not exist and CheckpointError if it is not a run folder.
RunData read_run(const std::filesystem::path& folder);

}  // namespace trireme
