#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/left_out.h"
#include "trainer/telemetry/chained_text.h"

namespace trireme {

// How far events.jsonl had come: its lines, and the chain of the last.
struct EventsMark {
  std::int64_t lines = 0;
  std::uint64_t chain = 0;
};

// Where an incarnation of a run goes on: stands before the lines of its steps, and again before
// those that follow a rollback.
struct LedgerBegin {
  std::string why;  // "start", "resume" or "rollback"
  std::int64_t incarnation = 0;
  std::int64_t after = 0;                          // the step it goes on from
  std::string weights;                             // their hash there
  std::vector<data::SampleRange> skip;             // data.skip
  std::string data;                                // SampleSource::fingerprint
  std::map<std::string, std::string> computation;  // what decides the bits of its steps
  std::optional<EventsMark> events = {};  // on disk by then; not in those of earlier versions
};

// A step that was applied.
struct LedgerStep {
  std::int64_t step = 0;  // 1 for the first
  std::int64_t incarnation = 0;
  data::SampleRange samples;  // of the training order, from the first to after the last
  // Of those after the step before, which were not trained on.
  std::vector<data::SampleRange> left_out;
  std::int64_t sequences = 0, tokens = 0;  // trained on in this step
  std::uint64_t hash = 0;                  // the sum of their sample_hash
  double loss = 0, grad_norm = 0, lr = 0;
  std::int64_t attempts = 1;     // this one and those that were not applied
  bool products_chosen = false;  // some way to multiply matrices was, on some rank
};

using LedgerLine = std::variant<LedgerBegin, LedgerStep>;

// A line of ledger.jsonl, without the newline, chained to the one before. Numbers whose bits matter
// are their bits as 16 hex digits.
ChainedText ledger_text(const LedgerLine& line, std::uint64_t chain_before);
// Throws DataError that says what is wrong.
LedgerLine parse_ledger_line(std::string_view text);

}  // namespace trireme
