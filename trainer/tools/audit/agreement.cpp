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

// What a line of the metrics has otherwise than the ledger; empty when nothing.
std::string difference(const MetricsRecord& line, std::int64_t tokens_before,
                       const LedgerStep& step) {
  if (bits(line.loss) != bits(step.loss)) return "loss";
  if (bits(line.grad_norm) != bits(step.grad_norm)) return "grad_norm";
  if (bits(line.lr) != bits(step.lr)) return "lr";
  if (line.tokens - tokens_before != step.tokens) return "number of tokens";
  return "";
}

// Where the run goes on from an earlier step the ledger says so before the metrics are cut to it.
// Returns the step that such a line is of; null when it is none.
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
  bool known = true;  // of several in a row that are not, the first is told
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
      if (known) find("the ledger does not have it among the steps that count");
    } else {
      const std::string other =
          difference(line, next ? tokens : line.tokens - taken->step->tokens, *taken->step);
      if (!other.empty()) {
        find(say("its ", other, " is not what the ledger says (ledger.jsonl:", taken->number, ")"));
      } else {
        ++same;
      }
    }
    known = taken != nullptr;
    step = line.step;
    tokens = line.tokens;
  }
  // A kill may come between the two lines of a step; those of later steps came while it was read.
  std::int64_t last = 0;
  for (auto taken = lineage.steps.rbegin(); taken != lineage.steps.rend() && last == 0; ++taken) {
    if (taken->number <= records.ledger_settled) last = taken->step->step;
  }
  if (last > step + 1) {
    findings.push_back(
        {kMetricsFile, 0, 0, say("it ends with step ", step, ", the ledger with step ", last)});
  }
  return same;
}

// Every start that the events tell of has to be in the ledger, which is told first.
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
                        say("of incarnation ", start.incarnation,
                            ", which goes on from there, the ledger knows nothing")});
  }
}

// Of the events only what came after the last mark may be lost unnoticed.
void compare_events(const Records& records, Findings& findings) {
  std::set<std::int64_t> told;  // incarnations that the events tell the start of
  for (const StartRecord& start : records.starts) told.insert(start.incarnation);
  const LedgerBegin* begin = nullptr;
  const LedgerBegin* last = nullptr;
  for (const LedgerRecord& record : records.ledger) {
    if (const auto* next = std::get_if<LedgerBegin>(&record.line)) last = next;
  }
  const LedgerBegin* const being_told = records.holder.empty() ? nullptr : last;
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
             say("it has ", there, " lines, and had ", lines, " when incarnation ",
                 begin->incarnation, " began (ledger.jsonl:", record.number, "): lines were lost"));
      } else if (records.events[static_cast<std::size_t>(lines - 1)].chain !=
                 begin->events->chain) {
        find(lines, say("it is not the line that was there when incarnation ", begin->incarnation,
                        " began (ledger.jsonl:", record.number, ")"));
      }
    } else if (begin != nullptr && begin->events && begin->why != "rollback" &&
               begin != being_told) {
      if (told.insert(begin->incarnation).second) {
        find(0, say("it does not tell of the ", begin->why, " of incarnation ", begin->incarnation,
                    ", which took steps (ledger.jsonl:", record.number, "): lines were lost"));
      }
    }
  }
}

bool same_end(const CheckpointRecord& checkpoint, const LedgerStep& step) {
  return checkpoint.loss == bits(step.loss) && checkpoint.grad_norm == bits(step.grad_norm);
}

// One of a branch that a restart from an older step has left counts as long as the ledger has it.
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

// What is wrong with the place in the data where a checkpoint's run goes on.
std::string complaint_of_position(const CheckpointRecord& checkpoint, std::uint64_t end) {
  const data::LeftOut between =
      data::LeftOut(checkpoint.left_out).inside({end, checkpoint.position});
  const bool adjoins = checkpoint.position >= end && between.count() == checkpoint.position - end;
  if (adjoins) return "";
  return say("its run goes on at sample ", checkpoint.position,
             ", but the step ended before sample ", end);
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
      wrong = "the ledger has no such step with its loss and gradient norm";
    } else {
      wrong = complaint_of_position(checkpoint, step->samples.end);
    }
    const auto line = std::find_if(records.metrics.begin(), records.metrics.end(),
                                   [&](const auto& some) { return some.step == checkpoint.step; });
    const TakenStep* taken = lineage.find(checkpoint.step);
    const bool counts = taken != nullptr && taken->step == step;
    if (wrong.empty() && counts && line != records.metrics.end() &&
        line->tokens != checkpoint.tokens) {
      wrong =
          say("its run has seen ", checkpoint.tokens, " tokens, by metrics.jsonl ", line->tokens);
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
