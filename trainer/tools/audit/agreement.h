#pragma once
#include "trainer/tools/audit/lineage.h"

namespace trireme {

// Agreement of the other files of the run folder with the ledger.
struct Agreement {
  std::int64_t metrics = 0, checkpoints = 0;  // number of lines and manifests that agree
};

// Compares metrics, events and checkpoints with the ledger; adds disagreements to `findings`.
Agreement compare(const Records& records, const Lineage& lineage, Findings& findings);

}  // namespace trireme
