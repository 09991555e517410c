#pragma once
#include <cstdint>
#include <vector>

#include "trainer/tools/audit/records.h"

namespace trireme {

// A ledger step and the incarnation that took it.
struct TakenStep {
  const LedgerStep* step = nullptr;
  std::int64_t number = 0;  // line number
  const LedgerBegin* begin = nullptr;
  // Identifies the state after the step. Equal for steps from the same state with the same samples
  // and a computation that guarantees the same bits.
  std::uint64_t state = 0;
};

// The steps that led to the run's current state, ascending, with statistics of the ledger.
struct Lineage {
  std::vector<TakenStep> steps;
  std::int64_t incarnations = 0, rollbacks = 0;  // those with steps
  struct RepeatedSteps {
    std::int64_t steps = 0;     // repeated after a restart or rollback
    std::int64_t samples = 0;   // of these, with the same samples
    std::int64_t promised = 0;  // of these, guaranteed to be bit-identical
    std::int64_t bits = 0;      // with bit-identical loss and gradient norm
  };
  RepeatedSteps repeated;

  // Null if not found.
  const TakenStep* find(std::int64_t step) const;
};

// Follows the ledger through its restarts and rollbacks. Findings are missing or unexpectedly
// repeated steps; samples trained on twice, skipped, or excluded without a reason; and repeated
// steps whose samples or bits differ although they are guaranteed equal. The result refers to the
// records.
Lineage follow(const Records& records, Findings& findings);

}  // namespace trireme
