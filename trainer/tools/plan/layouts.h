#pragma once
#include <functional>

#include "trainer/config/run_config.h"

namespace trireme {

// Calls `visit` with every layout of `config` over `ranks` ranks along the tensor, context,
// pipeline and data-parallel axes; many of them violate config rules. Tensor-parallel groups have
// at most `node` ranks, and use sequence parallelism wherever the tokens are divisible, which sends
// no more and needs less memory. Context ranks have at least kLeastShard tokens of a sequence.
inline constexpr std::int64_t kLeastShard = 2048;
void each_layout(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                 const std::function<void(const RunConfig&)>& visit);

}  // namespace trireme
