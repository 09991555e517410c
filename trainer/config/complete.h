#pragma once
#include <filesystem>

#include "trainer/config/loaded_config.h"

namespace trireme {

// Fills in what follows from other values (head_dim, global_batch_size, ...) and notes
// it as derived.
void complete(LoadedConfig& loaded, const std::filesystem::path& folder);

}  // namespace trireme
