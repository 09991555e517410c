#pragma once
#include <string>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/override.h"

namespace trireme {

// trireme data show CONFIG --step: prints the samples of training steps ("N", or "A:B" without B),
// their sources and the beginnings of their documents. `tokenizer` is "bytes" or a path; empty: the
// tokenizer of the config, if known.
ExitCode show_steps(const std::string& config, const std::vector<Override>& overrides,
                    const std::string& steps, const std::string& tokenizer);

}  // namespace trireme
