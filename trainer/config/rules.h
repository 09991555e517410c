#pragma once
#include "trainer/config/complaints.h"

namespace trireme {

// What a config is read for: a run, a look at what a run would be, which needs no data, or a model
// that is there already and needs neither data nor a length.
enum class Purpose : std::uint8_t { kTraining, kPlanning, kInference };

// What must hold between keys: missing and contradictory values.
void check_rules(const LoadedConfig& loaded, Complaints& complaints,
                 Purpose purpose = Purpose::kTraining);

}  // namespace trireme
