#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Activation recomputation, each more than the one before: `kNorms` drops outputs of norms,
// `kSelective` those of activation functions as well, which are cheap to recompute; `kFull` saves
// only a block's input, and the recomputing forward saves everything for the backward that follows.
enum class Recompute : std::uint8_t { kNone, kNorms, kSelective, kFull };

inline constexpr std::array<Recompute, 4> kRecomputeModes{Recompute::kNone, Recompute::kNorms,
                                                          Recompute::kSelective, Recompute::kFull};

// Config values, in the order of Recompute.
inline constexpr std::array<std::string_view, 4> kRecomputeNames{"none", "norms", "selective",
                                                                 "full"};

// Whether the backward recomputes what a branch's norm wrote, and what a region made of it on
// entry.
constexpr bool drops_norms(Recompute recompute) {
  return recompute == Recompute::kNorms || recompute == Recompute::kSelective;
}

}  // namespace trireme
