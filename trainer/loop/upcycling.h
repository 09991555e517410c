#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/piece.h"
#include "model/params/param_store.h"
#include "trainer/config/run_config.h"

namespace trireme {

// Sparse upcycling (Komatsuzaki et al. 2022): a model with experts starts from a dense one, with
// each expert a copy of its layer's MLP and with initialized routers.

// Whether the weights of `dense` can only be those of `sparse` by upcycling.
bool needs_upcycling(const ModelConfig& dense, const ModelConfig& sparse);
// Whether the two differ only in config keys and experts, and not in what their families fix.
bool same_family_parts(const ModelConfig& sparse, const ModelConfig& dense);
// `sparse`, of the same family parts, with an MLP like that of `dense` in place of the experts: it
// differs from `dense` in what upcycling does not change.
ModelConfig without_experts(const ModelConfig& sparse, const ModelConfig& dense);

// The pieces of a model with experts as they are read from a dense checkpoint: those of experts by
// the name of the layer's MLP, and none of routers.
std::vector<checkpoint::Piece> dense_pieces(std::span<const checkpoint::Piece> pieces);

struct UpcyclingDraws {
  std::uint64_t seed = 0;
  double noise = 0;  // standard deviation over that of the tensor's initialization
};
// Once the experts are read: initializes the routers and adds noise to the experts. An element
// depends only on the seed, its tensor's name and its index there.
void finish_upcycling(const ParamStore& params, std::span<const checkpoint::Piece> pieces,
                      const UpcyclingDraws& draws);

}  // namespace trireme
