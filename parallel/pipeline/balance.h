#pragma once
#include <cstdint>
#include <vector>

namespace trireme {

// What each part of a model takes per micro-batch: measured or computed, any one unit.
struct LayerCosts {
  std::vector<double> blocks;
  double embedding = 0, head = 0;
};

// How many consecutive blocks each stage has, at least one, so that the slowest stage is
// as fast as can be; the embedding is the first stage's, the head the last's. Where that
// leaves a choice, the stages are as equal as can be. Throws ConfigError when there are
// fewer blocks than stages.
std::vector<std::int64_t> balance_blocks(const LayerCosts& costs, int stages);

// A list from the config, as given: throws ConfigError unless it has `stages` numbers,
// each at least 1, that add up to `blocks`.
std::vector<std::int64_t> check_blocks_per_stage(const std::vector<std::int64_t>& list,
                                                 std::int64_t blocks, int stages);

// What each stage takes.
std::vector<double> stage_costs(const LayerCosts& costs, const std::vector<std::int64_t>& blocks);

}  // namespace trireme
