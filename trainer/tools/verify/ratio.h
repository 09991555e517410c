#pragma once
#include <optional>

#include "trainer/tools/verify/cause.h"

namespace trireme::verify {

// Of a gradient that is everywhere `ratio` times as large as it should be, which is known to a
// relative precision: what sizes of the layout that is made of. Nothing if it is 1.
std::optional<Cause> cause_of_ratio(double ratio, const Sharing& sharing, double precision);

}  // namespace trireme::verify
