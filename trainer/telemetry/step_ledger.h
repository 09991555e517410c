#pragma once
#include <cstdint>
#include <filesystem>

#include "trainer/telemetry/ledger_line.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {

// RUN_DIR/ledger.jsonl: what every step was trained on, by every incarnation of the run, one line
// a step. It only grows: a step that is taken again has a line for each time, and what goes on
// from where says which of them count. `trireme audit` reads it.
class StepLedger {
 public:
  // Goes on after the last whole line, with `begin`, which is on the disk when this returns where
  // the disk allows. Throws EnvironmentError when the file cannot be written.
  StepLedger(const std::filesystem::path& path, const LedgerBegin& begin);

  // Never throws for a full disk or the like: see RecordFile.
  void append(const LedgerStep& step) { write(step); }
  // To be called before a checkpoint of the step is committed. See RecordFile.
  bool sync() { return file_.sync(); }

 private:
  void write(const LedgerLine& line);

  std::uint64_t chain_;  // of the last line
  RecordFile file_;
};

}  // namespace trireme
