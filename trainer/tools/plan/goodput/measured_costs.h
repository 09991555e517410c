#pragma once
#include <filesystem>
#include <optional>

namespace trireme {

// Medians over the events of a run, in seconds; nullopt where it has no such event.
struct MeasuredCosts {
  std::optional<double> save;      // that a checkpoint blocked training
  std::optional<double> snapshot;  // that a snapshot in memory did
  std::optional<double> restart;   // from a detected failure to ranks with loaded state
};

// Of the run in `folder`; all nullopt without such a run.
MeasuredCosts measured_costs(const std::filesystem::path& folder);

}  // namespace trireme
