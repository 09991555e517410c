#pragma once
#include "trainer/convert/trainers/foreign_config.h"

namespace trireme {

// Whether leaving out this key with this value changes nothing that is computed: logging, paths,
// speed, or the one value that is ours too. A key that nobody has looked at is not harmless.
bool is_harmless(ForeignConfig::Kind trainer, const ForeignConfig::Entry& entry);

}  // namespace trireme
