#pragma once
#include <filesystem>
#include <optional>

#include "trainer/tools/audit/agreement.h"
#include "trainer/tools/audit/lineage.h"
#include "trainer/tools/audit/records.h"
#include "trainer/tools/audit/recount.h"

namespace trireme {

// Result of an audit.
struct Audit {
  Records records;
  Lineage lineage;  // refers to the records
  Agreement agreement;
  std::optional<Recount> recount;  // only with `data`
  Findings findings;               // empty: clean
};

// Checks the run folder's ledger, and metrics, events and checkpoints against it; with `data` also
// the token files of its config.toml. Throws ConfigError if the folder does not exist, and
// DataError if it has no ledger or the token files cannot be read.
Audit audit_run(const std::filesystem::path& run, bool data);

// A table, then "clean", "clean so far" for a running run, or the first findings, one per line.
std::string text_of(const Audit& audit);

}  // namespace trireme
