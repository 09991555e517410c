#pragma once
#include <filesystem>
#include <functional>
#include <string>

namespace trireme {

// The highest FLOP/s that `measure` found so far for the device that `key` names. A busy machine
// measures a lower peak, which would make the MFU of different runs incomparable. It is stored in
// matrix-peaks.json of `folder`, the user's cache. Each call measures until two measurements agree
// within 5 %; then none does for an hour, so that restarts are not delayed. Nothing is stored if
// `folder` is empty or cannot be written.
double cached_peak(const std::filesystem::path& folder, const std::string& key,
                   const std::function<double()>& measure);

}  // namespace trireme
