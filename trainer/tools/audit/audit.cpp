#include "trainer/tools/audit/audit.h"

#include <fmt/format.h>

#include "trainer/config/reader.h"
#include "trainer/loop/data_feed.h"
#include "trainer/telemetry/human.h"
#include "trainer/tools/audit/windows.h"

namespace trireme {
namespace {

constexpr std::size_t kMostFindings = 20;  // that are told

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
  return fmt::format("{} trained on, {} left out", grouped(trained), grouped(left_out));
}

std::string again_text(const Lineage::Again& again) {
  return fmt::format("{} steps, {} with the same samples, {} with the same bits ({} had to)",
                     grouped(again.steps), grouped(again.samples), grouped(again.bits),
                     grouped(again.promised));
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
  audit.read_again =
      recount(audit.records, audit.lineage, open_training_data(config), audit.findings);
  return audit;
}

std::string text_of(const Audit& audit) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:14}{}\n", name, value);
  };
  const Lineage& lineage = audit.lineage;
  const bool runs = !audit.records.holder.empty();
  if (runs) row("running", audit.records.holder + "; what it writes now is not judged");
  row("incarnations", fmt::format("{}, and {} rollbacks", lineage.incarnations, lineage.rollbacks));
  row("steps", steps_text(lineage));
  row("samples", samples_count_text(lineage));
  row("taken again", again_text(lineage.again));
  row("metrics.jsonl", fmt::format("{} steps agree", grouped(audit.agreement.metrics)));
  row("checkpoints", fmt::format("{} agree", audit.agreement.checkpoints));
  if (audit.read_again) {
    row("data", fmt::format("{} samples read again",
                            grouped(static_cast<std::int64_t>(audit.read_again->read))));
    row("sources", sources_text(*audit.read_again));
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
