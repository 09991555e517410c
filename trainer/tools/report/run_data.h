#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// One number over the steps of a run; steps ascend. NaN where it was not finite.
struct Series {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  bool empty() const { return steps.empty(); }
};

// The largest finite value; 0 when there is none.
double largest(const Series& series);

struct CheckpointFound {
  std::int64_t step = 0;
  std::string name;
  std::uint64_t bytes = 0;
  bool is_latest = false;
};

// What an audit of the run's ledger found.
struct AuditFound {
  bool is_clean = false;
  bool is_running = false;  // the run is being written: so far
  std::string text;
};

// Everything a run folder says, as far as it can be read.
struct RunData {
  std::filesystem::path folder;
  bool is_running = false;                // somebody holds its lease
  std::map<std::string, Series> metrics;  // by the key in metrics.jsonl
  std::vector<nlohmann::ordered_json> events;
  std::string config_text;
  std::string model;                         // from the config: flavor, or model_type; may be empty
  std::string description;                   // [job] description
  std::vector<CheckpointFound> checkpoints;  // committed ones, by step
  std::optional<AuditFound> audit;           // read_run makes none
  std::vector<std::string> complaints;       // what is missing or damaged, one sentence each

  const Series& series(const std::string& key) const;  // empty when there is none
};

// Reads what is there and complains in `complaints` of what is not. Throws ConfigError
// when the folder does not exist and CheckpointError when it is no run folder at all.
RunData read_run(const std::filesystem::path& folder);

}  // namespace trireme
