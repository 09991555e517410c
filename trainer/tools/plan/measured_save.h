#pragma once
#include <filesystem>
#include <optional>

namespace trireme {

// Seconds that a save stopped training for, the median over what the run in `folder` has recorded;
// nothing where there is no such run yet.
std::optional<double> measured_save(const std::filesystem::path& folder);

}  // namespace trireme
