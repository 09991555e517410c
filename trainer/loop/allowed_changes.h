#pragma once
#include <string>
#include <vector>

#include "trainer/config/difference.h"

namespace trireme {

// What a run that goes on after `step` steps finds changed in what its steps compute.
struct NumericChanges {
  std::vector<Change> allowed;  // by checkpoint.allow_changes
  std::vector<Change> refused;
};

// Nobody has to allow what leaves the steps done as they were: a learning rate that was the
// same in all of them, or another answer to bad steps.
NumericChanges numeric_changes(const RunConfig& before, const RunConfig& after, std::int64_t step);

// "\n  KEY: BEFORE -> AFTER" of each.
std::string lines_of(const std::vector<Change>& changes);

// The refused ones and the line of the config that would allow them, for people.
std::string refusal_text(const NumericChanges& changes, const RunConfig& after);

// Whether checkpoint.allow_changes has "all".
bool allows_all(const RunConfig& config);

}  // namespace trireme
