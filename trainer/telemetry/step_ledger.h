#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/left_out.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {

// A line of a chained file, without the newline: a JSON object whose last key, "chain", is the XXH3
// of the preceding text, seeded with the chain of the previous line (0 for the first), so that
// changed, missing and reordered lines are detected. It detects damage; it is not a signature.
struct ChainedText {
  std::string text;
  std::uint64_t chain = 0;
};
// Appends the chain to a non-empty JSON object.
ChainedText chained(std::string object, std::uint64_t chain_before);

// The chain at the end of the line; nothing if it has none.
std::optional<std::uint64_t> chain_of(std::string_view text);
// Whether the line is unchanged and follows a line with chain `chain_before`.
bool follows(std::string_view text, std::uint64_t chain_before);

// Position in events.jsonl: the number of lines, and the chain of the last.
struct EventsMark {
  std::int64_t lines = 0;
  std::uint64_t chain = 0;
};

// Start of an incarnation: precedes the lines of its steps, and is repeated after a rollback.
struct LedgerBegin {
  std::string why;  // "start", "resume" or "rollback"
  std::int64_t incarnation = 0;
  std::int64_t after = 0;               // step from which it resumes
  std::string weights;                  // hash of the weights at that step
  std::vector<data::SampleRange> skip;  // data.skip
  std::string data;                     // SampleSource::fingerprint
  // everything that determines the bits of its steps
  std::map<std::string, std::string> computation;
  // events on disk at that time; missing in files of earlier versions
  std::optional<EventsMark> events = {};
};

// A step that was applied to the weights.
struct LedgerStep {
  std::int64_t step = 0;  // counted from 1
  std::int64_t incarnation = 0;
  // positions in the training order, from the first to one past the last
  data::SampleRange samples;
  // Samples since the previous step that were not trained on.
  std::vector<data::SampleRange> left_out;
  std::int64_t sequences = 0, tokens = 0;  // trained on in this step
  std::uint64_t hash = 0;                  // sum of the sample_hash of its samples
  double loss = 0, grad_norm = 0, lr = 0;
  std::int64_t attempts = 1;     // including attempts that were not applied
  bool products_chosen = false;  // a rank selected a matmul algorithm in this step
};

using LedgerLine = std::variant<LedgerBegin, LedgerStep>;

// A line of ledger.jsonl, without the newline, chained to the previous line. Numbers whose bits
// matter are written as 16 hex digits.
ChainedText ledger_text(const LedgerLine& line, std::uint64_t chain_before);
// Throws DataError with the reason.
LedgerLine parse_ledger_line(std::string_view text);

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
