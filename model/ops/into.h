#pragma once
#include <cstdint>

namespace trireme::ops {

// Whether an op writes its result over what is there or adds it.
enum class Into : std::uint8_t { kReplace, kAdd };

}  // namespace trireme::ops
