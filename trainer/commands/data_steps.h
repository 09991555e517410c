#pragma once
#include <string>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/override.h"

namespace trireme {

// trireme data show CONFIG --step: prints the samples that the config gives to those training
// steps ("N", or "A:B" without B), where they come from and how their documents begin. `tokenizer`
// is "bytes" or a path; empty: the config's own, where it says.
ExitCode show_steps(const std::string& config, const std::vector<Override>& overrides,
                    const std::string& steps, const std::string& tokenizer);

}  // namespace trireme
