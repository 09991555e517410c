#pragma once
#include <cstdint>

namespace trireme::ops {

// Whether an op replaces its output or accumulates into it.
enum class Accumulate : std::uint8_t { kReplace, kAdd };

}  // namespace trireme::ops
