#pragma once
#include "trainer/tools/audit/lineage.h"

namespace trireme {

// What the other files of the run folder say of the steps in the ledger.
struct Agreement {
  std::int64_t metrics = 0, checkpoints = 0;  // lines, and manifests, that say the same
};

// Found is where they say something else, and what the ledger knows nothing of.
Agreement compare(const Records& records, const Lineage& lineage, Findings& findings);

}  // namespace trireme
