#pragma once
#include "trainer/config/complaints.h"

namespace trireme {

// What must hold between keys: missing and contradictory values.
void check_rules(const LoadedConfig& loaded, Complaints& complaints);

}  // namespace trireme
