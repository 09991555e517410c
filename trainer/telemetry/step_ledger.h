#pragma once
#include <cstdint>
#include <filesystem>

#include "trainer/telemetry/ledger_line.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {

// RUN_DIR/ledger.jsonl: the samples that every step of every incarnation was trained on, one line
// per step. Append-only: a recomputed step has one line for each time, and the LedgerBegin lines
// determine which of them count. `trireme audit` reads it.
class StepLedger {
 public:
  // Continues after the last complete line with `begin`, and syncs it to the disk if possible.
  // Throws EnvironmentError if the file cannot be written.
  StepLedger(const std::filesystem::path& path, const LedgerBegin& begin);

  // Does not throw for write errors such as a full disk: see RecordFile.
  void append(const LedgerStep& step) { write(step); }
  // Call it before committing a checkpoint of the step. See RecordFile.
  bool sync() { return file_.sync(); }

 private:
  void write(const LedgerLine& line);

  std::uint64_t chain_;  // chain of the last line
  RecordFile file_;
};

}  // namespace trireme
