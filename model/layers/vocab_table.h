#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "model/params/param_store.h"

namespace trireme {

// A [vocab, hidden] parameter sharded evenly by rows. The vocabulary is padded in memory to whole
// tiles per rank, so that rows of the logits are aligned (as Megatron-LM's
// make_vocab_size_divisible_by): to `tile` rows, and where it is sharded to at least the 16 that
// every dtype needs.
inline ParamSpec vocab_table(std::string name, std::int64_t vocab, std::int64_t hidden,
                             double init_scale, Slice holders, std::int64_t tile) {
  constexpr std::int64_t kLeast = 16;
  const std::int64_t multiple = holders.count * (holders.count > 1 ? std::max(tile, kLeast) : tile);
  const std::int64_t padded = (vocab + multiple - 1) / multiple * multiple;
  return {.name = std::move(name),
          .shape = {vocab, hidden},
          .cut = {.dim = 0, .slice = holders, .padded = padded},
          .init_scale = init_scale,
          .decay = true};
}

}  // namespace trireme
