#pragma once
#include <optional>
#include <vector>

#include "trainer/tools/verify/cause.h"

namespace trireme::verify {

// Cause if `values` are the expected rows at other positions: permuted heads, or rows shifted by a
// constant offset. nullopt otherwise.
std::optional<Cause> moved_rows(const Evidence& evidence, const std::vector<double>& values);

}  // namespace trireme::verify
