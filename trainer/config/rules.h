#pragma once
#include "trainer/config/complaints.h"

namespace trireme {

// Use of a config: a training run; planning, which needs no data; or inference with a trained
// model, which needs neither data nor a number of steps.
enum class Purpose : std::uint8_t { kTraining, kPlanning, kInference };

// Checks rules between keys: missing and conflicting values.
void check_rules(const LoadedConfig& loaded, Complaints& complaints,
                 Purpose purpose = Purpose::kTraining);

}  // namespace trireme
