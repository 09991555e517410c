#pragma once
#include <string>
#include <vector>

#include "trainer/config/option.h"

namespace trireme {

struct Change {
  std::string key;
  std::string before;  // as TOML
  std::string after;
  Effect effect;
};

// Keys with different values, in table order, with the effect of each change on a run that resumes
// from a checkpoint of the previous run.
std::vector<Change> difference(const RunConfig& before, const RunConfig& after);

// "layout only", "changes numerics", ...
std::string effect_text(Effect effect);

}  // namespace trireme
