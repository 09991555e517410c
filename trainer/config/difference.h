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

// The keys whose values differ, in the order of the table, with what each change means
// for a run that goes on from a checkpoint of the run before.
std::vector<Change> difference(const RunConfig& before, const RunConfig& after);

// "layout only", "changes numerics", ...
std::string effect_text(Effect effect);

}  // namespace trireme
