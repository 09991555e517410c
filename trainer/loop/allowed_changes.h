#pragma once
#include <string>
#include <vector>

#include "trainer/config/difference.h"

namespace trireme {

// Config changes that affect the computation of a run resumed after `step` steps.
struct NumericChanges {
  std::vector<Change> allowed;  // by checkpoint.allow_changes
  std::vector<Change> refused;
};

// Changes that would not have altered the steps done need no permission: a learning rate that is
// the same in all of them, or another policy for bad steps.
NumericChanges numeric_changes(const RunConfig& before, const RunConfig& after, std::int64_t step);

// "\n  KEY: BEFORE -> AFTER" of each.
std::string lines_of(const std::vector<Change>& changes);

// The refused changes, and the config line that would allow them.
std::string refusal_text(const NumericChanges& changes, const RunConfig& after);

// Whether checkpoint.allow_changes has "all".
bool allows_all(const RunConfig& config);

}  // namespace trireme
