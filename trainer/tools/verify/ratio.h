#pragma once
#include <optional>

#include "trainer/tools/verify/cause.h"

namespace trireme::verify {

// Explains a gradient that is `ratio` times its expected value, known to a relative precision, by
// sizes of the layout; nullopt if the ratio is 1.
std::optional<Cause> cause_of_ratio(double ratio, const LayoutSizes& layout, double precision);

}  // namespace trireme::verify
