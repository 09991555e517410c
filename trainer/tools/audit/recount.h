#pragma once
#include <utility>

#include "data/sequencer.h"
#include "trainer/tools/audit/lineage.h"

namespace trireme {

struct Recount {
  std::uint64_t read = 0;  // number of samples read
  // Per source (file name), the number of samples trained on or excluded. Without findings these
  // are the first ones of the source, each once and in order.
  std::vector<std::pair<std::string, std::uint64_t>> of_source;
};

// Reads the samples of every ledger step again. Findings are steps whose tokens differ, data
// windows used twice in an epoch, samples of a source out of order, and token files that are not
// the run's.
Recount recount(const Records& records, const Lineage& lineage, const data::SampleSource& source,
                Findings& findings);

}  // namespace trireme
