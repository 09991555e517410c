#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// How ranks that shard a sequence attend to each other's tokens.
enum class ContextMethod : std::uint8_t { kAllGather, kRing, kUlysses };

inline constexpr std::array<std::string_view, 3> kContextMethodNames{"all_gather", "ring",
                                                                     "ulysses"};

}  // namespace trireme
