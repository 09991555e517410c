#pragma once
#include <string>

#include "trainer/config/loaded_config.h"

namespace trireme {

// Every key that applies, with its value and, as a comment, where it came from. Reads
// back to the same config wherever the text is put: its paths are absolute.
std::string effective_toml(const LoadedConfig& loaded);

}  // namespace trireme
