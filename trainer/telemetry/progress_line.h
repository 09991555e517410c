#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// "[=====>    ]  45% 450/1000  loss 4.5612  42.1k tok/s  ETA 3m12s" in at most `width`
// columns: what does not fit is left out, `parts` from their end first, then the bar.
struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 1;
  std::vector<std::string> parts;  // the most important first
};
std::string progress_line(const Progress& progress, int width);

// Columns of the terminal behind a descriptor; 80 when it does not say.
int terminal_width(int descriptor);

}  // namespace trireme
