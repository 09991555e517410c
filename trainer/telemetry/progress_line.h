#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Formats "[=====>    ]  45% 450/1000  loss 4.5612  42.1k tok/s  ETA 3m12s" in at most `width`
// columns: drops `parts` from the end first, then the bar.
struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 1;
  std::vector<std::string> parts;  // most important first
};
std::string progress_line(const Progress& progress, int width);

// Width of the terminal at a file descriptor in columns; 80 if unknown.
int terminal_width(int descriptor);

}  // namespace trireme
