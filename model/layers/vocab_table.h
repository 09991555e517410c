#pragma once
#include <string>
#include <utility>

#include "model/params/param_store.h"

namespace trireme {

// A [vocab, hidden] parameter sharded evenly by rows. The vocabulary is padded in memory to whole
// tiles per rank, so that rows of the logits are aligned in every dtype (as Megatron-LM's
// make_vocab_size_divisible_by). Without sharding there is no padding.
inline ParamSpec vocab_table(std::string name, std::int64_t vocab, std::int64_t hidden,
                             double init_scale, Slice holders) {
  constexpr std::int64_t kTile = 16;
  const std::int64_t multiple = holders.count * kTile;
  const std::int64_t padded =
      holders.count == 1 ? vocab : (vocab + multiple - 1) / multiple * multiple;
  return {.name = std::move(name),
          .shape = {vocab, hidden},
          .cut = {.dim = 0, .slice = holders, .padded = padded},
          .init_scale = init_scale,
          .decay = true};
}

}  // namespace trireme
