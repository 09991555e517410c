#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/left_out.h"
#include "trainer/telemetry/step_ledger.h"

namespace trireme {

// File names in the run folder.
inline constexpr const char* kLedgerFile = "ledger.jsonl";
inline constexpr const char* kMetricsFile = "metrics.jsonl";

// A violation found by the audit.
struct Finding {
  std::string file;       // name in the run folder
  std::int64_t line = 0;  // from 1; 0: whole file
  std::int64_t step = 0;  // 0: no step
  std::string text;
};
using Findings = std::vector<Finding>;

// "ledger.jsonl:17: step 9: its samples ..."
std::string text_of(const Finding& finding);

// Records of a run folder, each with its line number (from 1).
struct LedgerRecord {
  std::int64_t number = 0;
  LedgerLine line;
};
struct MetricsRecord {
  std::int64_t number = 0;
  std::int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0;  // NaN if null
};
// A start or resume.
struct StartRecord {
  std::int64_t number = 0;
  std::int64_t step = 0, incarnation = 0;
};
// A skip or rollback: samples excluded before `step`.
struct LeftOutRecord {
  std::int64_t step = 0;
  data::SampleRange range;
};
struct CheckpointRecord {
  std::string file;  // manifest
  std::int64_t step = 0, tokens = 0;
  std::uint64_t position = 0;  // next sample
  std::vector<data::SampleRange> left_out;
  std::uint64_t loss = 0, grad_norm = 0;  // bits
};
// A line of events.jsonl with the chain that the ledger refers to.
struct EventsLine {
  bool is_chained = false;  // false in files of earlier versions
  std::uint64_t chain = 0;
  std::int64_t number = 0;  // line number as written
};
struct Records {
  std::string holder;               // description of the process that holds the lease; empty: none
  std::int64_t ledger_settled = 0;  // number of ledger lines before other files were read
  std::vector<LedgerRecord> ledger;
  std::vector<MetricsRecord> metrics;
  std::vector<StartRecord> starts;
  std::vector<LeftOutRecord> left_out;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<EventsLine> events;  // all, in order
};

// Adds unreadable and modified lines to `findings`; ignores lines that a running run is writing.
// Throws ConfigError if the folder does not exist, and DataError if it has no ledger and no process
// holds its lease.
Records read_records(const std::filesystem::path& run, Findings& findings);

}  // namespace trireme
