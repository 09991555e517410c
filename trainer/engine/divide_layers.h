#pragma once
#include <cstdint>
#include <vector>

#include "model/stage/model_config.h"

namespace trireme {

// How many layers each of `stages` has: `list` where it is not empty, else so that no stage takes
// longer than need be. Throws ConfigError where neither can be.
std::vector<std::int64_t> divide_layers(const ModelConfig& model, std::int64_t seq_len,
                                        const std::vector<std::int64_t>& list, int stages);

}  // namespace trireme
