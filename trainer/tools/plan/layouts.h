#pragma once
#include <functional>

#include "trainer/config/run_config.h"

namespace trireme {

// Calls `visit` with `config` laid out over `ranks` ranks in every way along the axes that the
// trainer shares work along; many break some rule of the config. Tensor groups stay within `node`
// ranks and share the tokens between their matrices wherever these can be divided: that sends no
// more and holds less.
void each_layout(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                 const std::function<void(const RunConfig&)>& visit);

}  // namespace trireme
