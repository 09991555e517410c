#pragma once
#include <cstddef>
#include <vector>

#include "data/source_part.h"

namespace trireme::data {

// All the sources that some lists name, as they first appear, and for each list where its own
// are among them. A prefix that one list names several times is as many sources.
struct Gathered {
  std::vector<SourceSpec> sources;
  std::vector<std::vector<std::size_t>> places;  // [lists]
};

Gathered gather(std::vector<std::vector<SourceSpec>> lists);

}  // namespace trireme::data
