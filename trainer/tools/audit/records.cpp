#include "trainer/tools/audit/records.h"

#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include "checkpoint/store/lease.h"
#include "checkpoint/store/store.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {

void json_fields(auto& f, CheckpointRecord& record) {
  f("tokens", record.tokens);
  f("samples", record.position);
  if (f.has("left_out")) f("left_out", record.left_out);  // not in those of earlier versions
  f.hex("loss", record.loss);
  f.hex("grad_norm", record.grad_norm);
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kEvents = "events.jsonl";

// Ignores text after the last newline, which is being written or was truncated.
void for_each_line(const fs::path& path,
                   const std::function<void(std::int64_t number, std::string_view line)>& use) {
  std::error_code why;
  if (!fs::exists(path, why)) return;
  const std::string text = record_text(path);
  std::string_view rest = text;
  std::int64_t number = 0;
  for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;) {
    use(++number, rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

// The same for JSON objects; other lines are findings.
void for_each_object(const fs::path& run, const char* name, Findings& findings,
                     const std::function<void(std::int64_t number, const json& object)>& use) {
  for_each_line(run / name, [&](std::int64_t number, std::string_view line) {
    const auto damaged = [&](const char* why) {
      findings.push_back({name, number, 0, say("the line cannot be read: ", why)});
    };
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) return damaged("it is not a JSON object");
    try {
      use(number, object);
    } catch (const std::exception& error) {  // DataError, json::exception
      damaged(error.what());
    }
  });
}

void read_ledger(const fs::path& run, Records& records, Findings& findings) {
  std::optional<std::uint64_t> chain = 0;  // nullopt after a line without a chain
  for_each_line(run / kLedgerFile, [&](std::int64_t number, std::string_view text) {
    std::int64_t step = 0;
    try {
      LedgerLine line = parse_ledger_line(text);
      if (const auto* taken = std::get_if<LedgerStep>(&line)) step = taken->step;
      records.ledger.push_back({number, std::move(line)});
    } catch (const DataError& error) {
      findings.push_back({kLedgerFile, number, 0, say("the line cannot be read: ", error.what())});
    }
    if (chain && !follows(text, *chain)) {
      findings.push_back(
          {kLedgerFile, number, step,
           "the line was modified, or its predecessor was modified or removed (chain "
           "mismatch)"});
    }
    chain = chain_of(text);
  });
}

void read_metrics(const fs::path& run, Records& records, Findings& findings) {
  for_each_object(run, kMetricsFile, findings, [&](std::int64_t number, const json& object) {
    const auto value = [&](const char* key) {
      const json& found = object.at(key);
      return found.is_null() ? std::numeric_limits<double>::quiet_NaN() : found.get<double>();
    };
    records.metrics.push_back({.number = number,
                               .step = object.at("step").get<std::int64_t>(),
                               .tokens = object.at("tokens").get<std::int64_t>(),
                               .loss = value("loss"),
                               .grad_norm = value("grad_norm"),
                               .lr = value("lr")});
  });
}

data::SampleRange range_of(const json& event, const char* key) {
  return json_value<data::SampleRange, DataError>(event.at(key), key);
}

void read_starts(const fs::path& run, Records& records, Findings& findings) {
  for_each_object(run, kEvents, findings, [&](std::int64_t number, const json& object) {
    const auto name = object.at("event").get<std::string>();
    if ((name == "start" || name == "resume") && object.contains("incarnation")) {
      records.starts.push_back({number, object.at("step").get<std::int64_t>(),
                                object.at("incarnation").get<std::int64_t>()});
    }
  });
}

void read_left_out(const fs::path& run, Records& records, Findings& findings) {
  for_each_object(run, kEvents, findings, [&](std::int64_t, const json& object) {
    const auto name = object.at("event").get<std::string>();
    if (name == "skip" || name == "stage_skip") {
      records.left_out.push_back(
          {object.at("step").get<std::int64_t>(), range_of(object, "samples")});
    } else if (name == "rollback") {
      records.left_out.push_back(
          {object.at("to_step").get<std::int64_t>() + 1, range_of(object, "left_out")});
    }
  });
}

// Lines of earlier versions have no chain; all lines after a chained one are chained.
void read_events_chain(const fs::path& run, Records& records, Findings& findings) {
  for_each_line(run / kEvents, [&](std::int64_t number, std::string_view text) {
    const EventsLine before = records.events.empty() ? EventsLine{} : records.events.back();
    const std::optional<std::uint64_t> chain = chain_of(text);
    const json object = json::parse(text, nullptr, false);
    const auto recorded = json_at<std::int64_t>(object, "line");
    // Reports only the first line after lost ones.
    const std::int64_t due = before.is_chained ? before.number + 1 : number;
    if ((chain || before.is_chained) && !(recorded == due && follows(text, before.chain))) {
      findings.push_back(
          {kEvents, number, 0,
           "the line was modified, or its predecessor was modified or removed (number or "
           "chain mismatch)"});
    }
    records.events.push_back({.is_chained = chain.has_value(),
                              .chain = chain.value_or(0),
                              .number = recorded.value_or(due)});
  });
}

void read_checkpoints(const fs::path& run, Records& records, Findings& findings) {
  for (const checkpoint::Summary& summary : checkpoint::Store(run).list()) {
    const std::string file = say("checkpoints/", summary.folder.filename().string(), "/",
                                 checkpoint::Manifest::kFileName);
    const auto damaged = [&](const char* why) {
      findings.push_back({file, 0, 0, say("it cannot be read: ", why)});
    };
    std::error_code why;
    if (!summary.manifest && !fs::exists(summary.folder, why)) continue;  // pruned meanwhile
    if (!summary.manifest) {
      damaged(summary.problem.c_str());
      continue;
    }
    try {
      json parts = summary.manifest->data;
      parts.update(summary.manifest->digests);
      auto record = json_value<CheckpointRecord, DataError>(parts, "", JsonKeys::kAny);
      record.file = file;
      record.step = summary.manifest->step;
      records.checkpoints.push_back(std::move(record));
    } catch (const DataError& error) {
      damaged(error.what());
    }
  }
}

// Reads files in the reverse of the order in which they are written, so that a file read later
// contains everything that one read earlier refers to. Written order: a step goes to the ledger,
// the metrics and a checkpoint; a start to the ledger and the events; an exclusion to the events
// and the ledger.
Records read_backwards(const fs::path& run, Findings& findings) {
  Records records;
  for_each_line(run / kLedgerFile,
                [&](std::int64_t number, std::string_view) { records.ledger_settled = number; });
  read_checkpoints(run, records, findings);
  read_metrics(run, records, findings);
  read_starts(run, records, findings);
  read_ledger(run, records, findings);
  Findings duplicates;  // of the same lines
  read_left_out(run, records, duplicates);
  read_events_chain(run, records, findings);
  return records;
}

// Whether the run resumed or rolled back and took steps while it was read; its metrics may have
// been truncated before or after they were read.
bool has_moved(const Records& records) {
  bool begins = false;
  for (const LedgerRecord& record : records.ledger) {
    if (record.number < records.ledger_settled) continue;
    const bool is_begin = std::holds_alternative<LedgerBegin>(record.line);
    if (begins && !is_begin) return true;
    begins = begins || is_begin;
  }
  return false;
}

}  // namespace

std::string text_of(const Finding& finding) {
  std::string text = finding.file;
  if (finding.line > 0) text += say(":", finding.line);
  if (finding.step > 0) text += say(": step ", finding.step);
  return say(text, ": ", finding.text);
}

Records read_records(const fs::path& run, Findings& findings) {
  std::error_code why;
  if (!fs::is_directory(run, why)) {
    throw ConfigError(say("no such run folder: ", run.string(), "; give the dump_folder of a run"));
  }
  std::string holder = checkpoint::lease_holder(run);
  if (!fs::exists(run / kLedgerFile, why) && holder.empty()) {
    throw DataError(say(run.string(), " has no ", kLedgerFile,
                        ": it is not a run folder, or was written by a version without a ledger"));
  }
  constexpr int kMostTries = 20;
  for (int attempt = 1;; ++attempt) {
    Findings found;
    Records records = read_backwards(run, found);
    if (has_moved(records) && attempt < kMostTries) continue;
    findings.insert(findings.end(), found.begin(), found.end());
    if (holder.empty()) holder = checkpoint::lease_holder(run);
    records.holder = std::move(holder);
    return records;
  }
}

}  // namespace trireme
