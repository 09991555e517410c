#pragma once
#include <filesystem>
#include <optional>

#include "trainer/tools/audit/agreement.h"
#include "trainer/tools/audit/lineage.h"
#include "trainer/tools/audit/records.h"
#include "trainer/tools/audit/recount.h"

namespace trireme {

// What the records of a run prove of its steps.
struct Audit {
  Records records;
  Lineage lineage;  // refers to the records
  Agreement agreement;
  std::optional<Recount> read_again;  // where that was asked for
  Findings findings;                  // none: it is clean
};

// Reads the run folder's ledger and what has to agree with it; with `data` also the token files
// that its config.toml names, whole. Throws ConfigError when there is no such folder, and DataError
// when it has no ledger or when the token files cannot be used.
Audit audit_run(const std::filesystem::path& run, bool data);

// A table for people, then "clean", "clean so far" where the run is being written, or the first of
// what was found, a line each.
std::string text_of(const Audit& audit);

}  // namespace trireme
