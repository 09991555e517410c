#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// The series from step `first` to `last` as at most `columns` block characters. Each column shows
// the mean of its steps, scaled to the range of all means; " " without a value, "x" without a
// finite one.
std::string sparkline(const Series& series, std::int64_t first, std::int64_t last,
                      std::size_t columns);

}  // namespace trireme
