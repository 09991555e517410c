#pragma once
#include <string>

#include "trainer/commands/outline.h"

namespace trireme {

// The man page of section 1: every command with its options, and every key of the config.
std::string manual_page(const CommandOutline& program, const std::string& version);

}  // namespace trireme
