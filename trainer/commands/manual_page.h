#pragma once
#include <string>

#include "trainer/commands/outline.h"

namespace trireme {

// Man page (section 1) with all commands, options and config keys.
std::string manual_page(const CommandOutline& program, const std::string& version);

}  // namespace trireme
