#pragma once
#include <cstddef>
#include <vector>

#include "data/source_part.h"

namespace trireme::data {

// The distinct sources of several lists in order of first appearance, and the indices of each
// list's sources among them. A prefix repeated in one list counts as several sources.
struct Gathered {
  std::vector<SourceSpec> sources;
  std::vector<std::vector<std::size_t>> places;  // [lists]
};

Gathered gather(std::vector<std::vector<SourceSpec>> lists);

}  // namespace trireme::data
