#pragma once
#include <string>

namespace trireme {

// What to say after "unknown key": the key that was meant, which may go by the name that another
// trainer has for it, or the known feature that is not built. `dashes` stand before a key.
// "; did you mean training.steps?"
std::string hint_for_key(const std::string& section, const std::string& name,
                         const std::string& dashes = "");

// "; did you mean [training]?"; of an empty one, where all keys are listed.
std::string did_you_mean(const std::string& near);

}  // namespace trireme
