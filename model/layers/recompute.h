#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Activation recomputation: `kSelective` drops outputs of norms and activation functions, which are
// cheap to recompute; `kFull` saves only a block's input, and the recomputing forward saves
// everything for the backward that follows.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };

// Config values, in the order of Recompute.
inline constexpr std::array<std::string_view, 3> kRecomputeNames{"none", "selective", "full"};

}  // namespace trireme
