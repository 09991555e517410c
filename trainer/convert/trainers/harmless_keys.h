#pragma once
#include "trainer/convert/trainers/foreign_config.h"

namespace trireme {

// Whether this key can be dropped without changing the computation: logging, paths, performance, or
// a value equal to this trainer's behavior. Unknown keys are not harmless.
bool is_harmless(ForeignConfig::Kind trainer, const ForeignConfig::Entry& entry);

}  // namespace trireme
