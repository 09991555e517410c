#pragma once
#include <string>
#include <utility>

#include "model/params/param_store.h"

namespace trireme {

// A [vocab, hidden] parameter whose rows are shared out equally, for which the
// vocabulary is padded in memory: to whole tiles for every holder, so that a row of
// its logits is aligned in every dtype (Megatron-LM's make_vocab_size_divisible_by).
// A single holder's is not padded.
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
