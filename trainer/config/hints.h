#pragma once
#include <string>

namespace trireme {

// Hint after "unknown key": the likely key, also if given by its name in another trainer, or a
// known feature that is not implemented. `dashes` is prepended to keys.
// "; did you mean training.steps?"
std::string hint_for_key(const std::string& section, const std::string& name,
                         const std::string& dashes = "");

// "; did you mean [training]?", or for an empty name where all keys are listed.
std::string did_you_mean(const std::string& near);

}  // namespace trireme
