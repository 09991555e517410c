#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/left_out.h"

namespace trireme {

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

// A line of ledger.jsonl, without the newline: a JSON object whose last key, "chain", is the XXH3
// of the text before it, keyed by the chain of the line before (0 for the first), so that a line
// that was changed, lost or moved shows. It finds damage; it is no signature. Numbers whose bits
// matter are their bits as 16 hex digits.
struct ChainedText {
  std::string text;
  std::uint64_t chain = 0;
};
ChainedText ledger_text(const LedgerLine& line, std::uint64_t chain_before);

// The chain such a line ends with; nothing when it is none.
std::optional<std::uint64_t> chain_of(std::string_view text);
// Whether the line is as it was written, after a line with that chain.
bool follows(std::string_view text, std::uint64_t chain_before);
// Throws DataError that says what is wrong.
LedgerLine parse_ledger_line(std::string_view text);

}  // namespace trireme
