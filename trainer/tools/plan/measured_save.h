#pragma once
#include <filesystem>
#include <optional>

namespace trireme {

// Median of the seconds that a save blocked training, from the events of the run in `folder`;
// nullopt without such a run.
std::optional<double> measured_save(const std::filesystem::path& folder);

}  // namespace trireme
