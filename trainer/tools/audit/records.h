#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/left_out.h"
#include "trainer/telemetry/ledger_line.h"
#include "trainer/tools/audit/findings.h"

namespace trireme {

// What a run folder tells of the run's steps, each with the number of its line, from 1.
struct LedgerRecord {
  std::int64_t number = 0;
  LedgerLine line;
};
struct MetricsRecord {
  std::int64_t number = 0;
  std::int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0;  // NaN where there is no number
};
// A start or resume.
struct StartRecord {
  std::int64_t number = 0;
  std::int64_t step = 0, incarnation = 0;
};
// A skip or rollback: samples that are left out before `step` is taken.
struct LeftOutRecord {
  std::int64_t step = 0;
  data::SampleRange range;
};
struct CheckpointRecord {
  std::string file;  // its manifest's
  std::int64_t step = 0, tokens = 0;
  std::uint64_t position = 0;  // of the run in its data
  std::vector<data::SampleRange> left_out;
  std::uint64_t loss = 0, grad_norm = 0;  // bits
};
// A line of events.jsonl as the ledger's marks know it.
struct EventsLine {
  bool is_chained = false;  // not in those of earlier versions
  std::uint64_t chain = 0;
  std::int64_t number = 0;  // as it was written
};
struct Records {
  std::string holder;               // in words, who writes the run just now; empty: nobody
  std::int64_t ledger_settled = 0;  // its lines that were there before anything else was read
  std::vector<LedgerRecord> ledger;
  std::vector<MetricsRecord> metrics;
  std::vector<StartRecord> starts;
  std::vector<LeftOutRecord> left_out;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<EventsLine> events;  // all, in their order
};

// What cannot be read, or is not as it was written, is found; what a run writes in the meantime is
// not. Throws ConfigError when there is no such folder and DataError when it has no ledger, and
// nobody who is about to begin one.
Records read_records(const std::filesystem::path& run, Findings& findings);

}  // namespace trireme
