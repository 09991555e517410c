#pragma once
#include <cstdint>
#include <vector>

namespace trireme {

// Cost of the parts of a model per micro-batch, measured or computed, in any unit.
struct LayerCosts {
  std::vector<double> blocks;
  double embedding = 0, head = 0;
};

// Assigns consecutive blocks to stages, at least one each, minimizing the cost of the slowest
// stage; the embedding is on the first stage, the head on the last. Among equal solutions the most
// even one is chosen. Throws ConfigError if there are fewer blocks than stages.
std::vector<std::int64_t> balance_blocks(const LayerCosts& costs, int stages);

// Returns a list from the config unchanged. Throws ConfigError unless it has `stages` numbers, each
// at least 1, that add up to `blocks`.
std::vector<std::int64_t> check_blocks_per_stage(const std::vector<std::int64_t>& list,
                                                 std::int64_t blocks, int stages);

// Cost of each stage.
std::vector<double> stage_costs(const LayerCosts& costs, const std::vector<std::int64_t>& blocks);

}  // namespace trireme
