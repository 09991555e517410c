#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// The series as a line of `columns` block characters from step `first` to step `last`, at most one
// a step: the mean of each column's steps between the least and the greatest of these means. A
// column without a value is a blank, one without a finite value an "x".
std::string sparkline(const Series& series, std::int64_t first, std::int64_t last,
                      std::size_t columns);

}  // namespace trireme
