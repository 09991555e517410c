#pragma once
#include <optional>
#include <vector>

#include "trainer/tools/verify/cause.h"

namespace trireme::verify {

// Whether `values` are the expected rows, but in other places: heads that have changed places, or
// rows that are off by a constant number.
std::optional<Cause> moved_rows(const Evidence& evidence, const std::vector<double>& values);

}  // namespace trireme::verify
