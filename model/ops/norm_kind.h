#pragma once
#include <cstdint>

namespace trireme {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };

}  // namespace trireme
