#include "trainer/tools/audit/audit.h"

#include <fmt/format.h>

#include "model/base/human.h"
#include "trainer/config/reader.h"
#include "trainer/engine/data_feed.h"
#include "trainer/tools/audit/windows.h"

namespace trireme {
namespace {

constexpr std::size_t kMostFindings = 20;  // number of findings printed

std::string steps_text(const Lineage& lineage) {
  if (lineage.steps.empty()) return "none";
  const std::int64_t first = lineage.steps.front().step->step;
  const std::int64_t last = lineage.steps.back().step->step;
  return fmt::format("{} to {}, {} lines", grouped(first), grouped(last),
                     grouped(static_cast<std::int64_t>(lineage.steps.size())));
}

std::string samples_count_text(const Lineage& lineage) {
  std::int64_t trained = 0, left_out = 0;
  for (const TakenStep& taken : lineage.steps) {
    trained += taken.step->sequences;
    left_out += static_cast<std::int64_t>(data::LeftOut(taken.step->left_out).count());
  }
  return fmt::format("{} trained on, {} excluded", grouped(trained), grouped(left_out));
}

std::string repeated_text(const Lineage::RepeatedSteps& repeated) {
  return fmt::format("{} steps, {} with the same samples, {} bit-identical ({} guaranteed)",
                     grouped(repeated.steps), grouped(repeated.samples), grouped(repeated.bits),
                     grouped(repeated.promised));
}

std::string sources_text(const Recount& recount) {
  std::string text;
  for (const auto& [name, samples] : recount.of_source) {
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ",
                        grouped(static_cast<std::int64_t>(samples)), name);
  }
  return text;
}

}  // namespace

Audit audit_run(const std::filesystem::path& run, bool data) {
  Audit audit;
  audit.records = read_records(run, audit.findings);
  audit.lineage = follow(audit.records, audit.findings);
  audit.agreement = compare(audit.records, audit.lineage, audit.findings);
  if (!data || audit.records.ledger.empty()) return audit;
  const RunConfig config = load_config(run / "config.toml", {}).config;
  audit.recount = recount(audit.records, audit.lineage, open_training_data(config), audit.findings);
  return audit;
}

std::string text_of(const Audit& audit) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:14}{}\n", name, value);
  };
  const Lineage& lineage = audit.lineage;
  const bool runs = !audit.records.holder.empty();
  if (runs) row("running", audit.records.holder + "; lines written during the audit are ignored");
  row("incarnations", fmt::format("{}, {} rollbacks", lineage.incarnations, lineage.rollbacks));
  row("steps", steps_text(lineage));
  row("samples", samples_count_text(lineage));
  row("repeated", repeated_text(lineage.repeated));
  row("metrics.jsonl", fmt::format("{} steps agree", grouped(audit.agreement.metrics)));
  row("checkpoints", fmt::format("{} agree", audit.agreement.checkpoints));
  if (audit.recount) {
    row("data", fmt::format("{} samples compared",
                            grouped(static_cast<std::int64_t>(audit.recount->read))));
    row("sources", sources_text(*audit.recount));
  }
  if (audit.findings.empty()) return text + (runs ? "clean so far\n" : "clean\n");
  for (std::size_t i = 0; i < std::min(audit.findings.size(), kMostFindings); ++i) {
    text += text_of(audit.findings[i]) + "\n";
  }
  if (audit.findings.size() > kMostFindings) {
    text += fmt::format("and {} more\n", audit.findings.size() - kMostFindings);
  }
  return text;
}

}  // namespace trireme
