#include "trainer/tools/audit/agreement.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "model/base/error.h"

namespace trireme {
namespace {

std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

// The value of a metrics line that differs from the ledger, or "".
std::string difference(const MetricsRecord& line, std::int64_t tokens_before,
                       const LedgerStep& step) {
  if (bits(line.loss) != bits(step.loss)) return "loss";
  if (bits(line.grad_norm) != bits(step.grad_norm)) return "grad_norm";
  if (bits(line.lr) != bits(step.lr)) return "lr";
  if (line.tokens - tokens_before != step.tokens) return "number of tokens";
  return "";
}

// On a resume or rollback the ledger is written before the metrics are truncated. Returns the
// ledger step of a metrics line that is about to be truncated, otherwise null.
const LedgerStep* step_to_be_cut(const MetricsRecord& line, const Records& records) {
  const auto* begin =
      records.ledger.empty() ? nullptr : std::get_if<LedgerBegin>(&records.ledger.back().line);
  if (begin == nullptr || line.step <= begin->after) return nullptr;
  for (auto record = records.ledger.rbegin(); record != records.ledger.rend(); ++record) {
    const auto* step = std::get_if<LedgerStep>(&record->line);
    if (step == nullptr || step->step != line.step) continue;
    return difference(line, line.tokens - step->tokens, *step).empty() ? step : nullptr;
  }
  return nullptr;
}

std::int64_t compare_metrics(const Records& records, const Lineage& lineage, Findings& findings) {
  std::int64_t same = 0, step = 0, tokens = 0;
  bool known = true;  // reports only the first of consecutive unknown lines
  for (const MetricsRecord& line : records.metrics) {
    const auto find = [&](std::string text) {
      findings.push_back({kMetricsFile, line.number, line.step, std::move(text)});
    };
    const TakenStep* taken = lineage.find(line.step);
    const bool next = line.step == step + 1;
    if (next && taken == nullptr && step_to_be_cut(line, records) != nullptr) {
      step = line.step;
      tokens = line.tokens;
      continue;
    }
    if (!next) find(say("it follows step ", step));
    if (taken == nullptr) {
      if (known) find("the ledger does not have this step in the current lineage");
    } else {
      const std::string other =
          difference(line, next ? tokens : line.tokens - taken->step->tokens, *taken->step);
      if (!other.empty()) {
        find(say("its ", other, " differs from the ledger (ledger.jsonl:", taken->number, ")"));
      } else {
        ++same;
      }
    }
    known = taken != nullptr;
    step = line.step;
    tokens = line.tokens;
  }
  // A kill may separate the two lines of a step; later lines were written during the audit.
  std::int64_t last = 0;
  for (auto taken = lineage.steps.rbegin(); taken != lineage.steps.rend() && last == 0; ++taken) {
    if (taken->number <= records.ledger_settled) last = taken->step->step;
  }
  if (last > step + 1) {
    findings.push_back(
        {kMetricsFile, 0, 0, say("it ends with step ", step, ", but the ledger with step ", last)});
  }
  return same;
}

// The ledger is written before the events, so it has every start of the events.
void compare_starts(const Records& records, Findings& findings) {
  std::set<std::pair<std::int64_t, std::int64_t>> known;
  for (const LedgerRecord& record : records.ledger) {
    if (const auto* begin = std::get_if<LedgerBegin>(&record.line)) {
      known.emplace(begin->incarnation, begin->after);
    }
  }
  for (const StartRecord& start : records.starts) {
    if (known.count({start.incarnation, start.step}) > 0) continue;
    findings.push_back({"events.jsonl", start.number, start.step,
                        say("incarnation ", start.incarnation,
                            ", which starts from this step, is missing in the ledger")});
  }
}

// The ledger records the number of events, so only events after its last mark can be lost
// unnoticed.
void compare_events(const Records& records, Findings& findings) {
  std::set<std::int64_t> started;  // incarnations with a start event
  for (const StartRecord& start : records.starts) started.insert(start.incarnation);
  const LedgerBegin* begin = nullptr;
  const LedgerBegin* last = nullptr;
  for (const LedgerRecord& record : records.ledger) {
    if (const auto* next = std::get_if<LedgerBegin>(&record.line)) last = next;
  }
  const LedgerBegin* const being_written = records.holder.empty() ? nullptr : last;
  for (const LedgerRecord& record : records.ledger) {
    const auto find = [&](std::int64_t line, std::string text) {
      findings.push_back({"events.jsonl", line, 0, std::move(text)});
    };
    if (const auto* next = std::get_if<LedgerBegin>(&record.line)) {
      begin = next;
      if (!begin->events || begin->events->lines == 0) continue;
      const std::int64_t lines = begin->events->lines;
      const auto there = static_cast<std::int64_t>(records.events.size());
      if (there < lines) {
        find(0,
             say("it has ", there, " lines, but had ", lines, " when incarnation ",
                 begin->incarnation, " began (ledger.jsonl:", record.number, "): lines were lost"));
      } else if (records.events[lines - 1].chain != begin->events->chain) {
        find(lines, say("the line was modified since incarnation ", begin->incarnation,
                        " began (ledger.jsonl:", record.number, ")"));
      }
    } else if (begin != nullptr && begin->events && begin->why != "rollback" &&
               begin != being_written) {
      if (started.insert(begin->incarnation).second) {
        find(0, say("the ", begin->why, " of incarnation ", begin->incarnation,
                    " is missing, which took steps (ledger.jsonl:", record.number,
                    "): lines were lost"));
      }
    }
  }
}

bool same_end(const CheckpointRecord& checkpoint, const LedgerStep& step) {
  return checkpoint.loss == bits(step.loss) && checkpoint.grad_norm == bits(step.grad_norm);
}

// Checkpoints of abandoned branches are valid as long as the ledger has the step.
const LedgerStep* step_of(const CheckpointRecord& checkpoint, const Records& records,
                          const Lineage& lineage) {
  const TakenStep* taken = lineage.find(checkpoint.step);
  if (taken != nullptr && same_end(checkpoint, *taken->step)) return taken->step;
  for (const LedgerRecord& record : records.ledger) {
    const auto* step = std::get_if<LedgerStep>(&record.line);
    if (step != nullptr && step->step == checkpoint.step && same_end(checkpoint, *step))
      return step;
  }
  return nullptr;
}

// Checks the data position of a checkpoint; returns "" if it follows the step.
std::string complaint_of_position(const CheckpointRecord& checkpoint, std::uint64_t end) {
  const data::LeftOut between =
      data::LeftOut(checkpoint.left_out).inside({end, checkpoint.position});
  const bool adjoins = checkpoint.position >= end && between.count() == checkpoint.position - end;
  if (adjoins) return "";
  return say("it resumes at sample ", checkpoint.position, ", but the step ended before sample ",
             end);
}

std::int64_t compare_checkpoints(const Records& records, const Lineage& lineage,
                                 Findings& findings) {
  std::int64_t same = 0;
  for (const CheckpointRecord& checkpoint : records.checkpoints) {
    const LedgerStep* step = step_of(checkpoint, records, lineage);
    std::string wrong;
    if (checkpoint.step == 0) {
      wrong = complaint_of_position(checkpoint, 0);
    } else if (step == nullptr) {
      wrong = "the ledger has no such step with this loss and gradient norm";
    } else {
      wrong = complaint_of_position(checkpoint, step->samples.end);
    }
    const auto line = std::find_if(records.metrics.begin(), records.metrics.end(),
                                   [&](const auto& some) { return some.step == checkpoint.step; });
    const TakenStep* taken = lineage.find(checkpoint.step);
    const bool counts = taken != nullptr && taken->step == step;
    if (wrong.empty() && counts && line != records.metrics.end() &&
        line->tokens != checkpoint.tokens) {
      wrong = say("it has ", checkpoint.tokens, " tokens, but metrics.jsonl has ", line->tokens);
    }
    same += wrong.empty() ? 1 : 0;
    if (!wrong.empty()) findings.push_back({checkpoint.file, 0, checkpoint.step, wrong});
  }
  return same;
}

}  // namespace

Agreement compare(const Records& records, const Lineage& lineage, Findings& findings) {
  Agreement agreement;
  agreement.metrics = compare_metrics(records, lineage, findings);
  compare_starts(records, findings);
  compare_events(records, findings);
  agreement.checkpoints = compare_checkpoints(records, lineage, findings);
  return agreement;
}

}  // namespace trireme
