#pragma once
#include <utility>

#include "data/sequencer.h"
#include "trainer/tools/audit/lineage.h"

namespace trireme {

struct Recount {
  std::uint64_t read = 0;  // samples
  // Of each source, by its file's name, how many samples were trained on or left out: the first so
  // many, each once and in their order, where nothing else was found.
  std::vector<std::pair<std::string, std::uint64_t>> of_source;
};

// Reads the samples of every step in the ledger again. Found is: a step whose tokens are not
// those it was trained on, a window of the data that counts twice in an epoch, a source's sample
// that does not follow its last, and token files that are not the run's.
Recount recount(const Records& records, const Lineage& lineage, const data::SampleSource& source,
                Findings& findings);

}  // namespace trireme
