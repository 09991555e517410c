#pragma once
#include <filesystem>

#include "trainer/config/loaded_config.h"

namespace trireme {

// Fills in values derived from others (head_dim, global_batch_size, ...) and marks them as derived.
void complete(LoadedConfig& loaded, const std::filesystem::path& folder);

}  // namespace trireme
