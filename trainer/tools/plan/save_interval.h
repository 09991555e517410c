#pragma once
#include <filesystem>
#include <optional>

namespace trireme {

// Optimal checkpoint interval in seconds of training, for exponentially distributed failures with a
// mean of `between_failures` seconds and saves that block training for `save` seconds.
double young_interval(double save, double between_failures);  // Young 1974
double daly_interval(double save, double between_failures);   // Daly 2006, of higher order

// Fraction of time lost, to first order: saves, and per failure half an interval of recomputation
// plus the restart.
double lost_share(double interval, double save, double between_failures, double restart);

// Median of the seconds that a save blocked training, from the events of the run in `folder`;
// nullopt without such a run.
std::optional<double> measured_save(const std::filesystem::path& folder);

}  // namespace trireme
