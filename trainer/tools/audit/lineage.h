#pragma once
#include <cstdint>
#include <vector>

#include "trainer/tools/audit/records.h"

namespace trireme {

// A step of the ledger, and from where its incarnation went on.
struct TakenStep {
  const LedgerStep* step = nullptr;
  std::int64_t number = 0;  // of its line
  const LedgerBegin* begin = nullptr;
  // What it left the run in: two steps with the same state came from the same one, with the same
  // samples, by a computation that promises the same bits.
  std::uint64_t state = 0;
};

// The steps that the run's state is made of, ascending, and what was seen on the way there.
struct Lineage {
  std::vector<TakenStep> steps;
  std::int64_t incarnations = 0, rollbacks = 0;  // that began to take steps
  struct Again {
    std::int64_t steps = 0;     // taken again after a restart or rollback
    std::int64_t samples = 0;   // of these, with the same samples
    std::int64_t promised = 0;  // and by a computation that promises the same bits
    std::int64_t bits = 0;      // with the same loss and gradient norm
  };
  Again again;

  // Null when there is none.
  const TakenStep* find(std::int64_t step) const;
};

// Follows the ledger through its restarts and rollbacks. Found is: a step that is missing, or
// stands there twice without a reason; samples trained on twice, passed over, or left out without
// an event that says why; and steps taken again that should have had the same samples or bits.
// The records outlive what is returned.
Lineage follow(const Records& records, Findings& findings);

}  // namespace trireme
