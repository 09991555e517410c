#pragma once
#include <string>

#include "trainer/tools/plan/layout_plan.h"

namespace trireme {

// Properties of the terminal.
struct Canvas {
  int columns = 80;
  bool colors = false;
};

// One bar per pipeline rank with a letter (and color) per memory class, scaled to the larger of
// `available` bytes and the largest rank, and a legend. Of many ranks a sample with both ends.
std::string memory_bars(const LayoutPlan& plan, double available, const Canvas& canvas);

inline constexpr int kMostRows = 16;  // of bars or timelines in a terminal
// At most `most` of `count` rows, evenly spaced, with the first and the last.
std::vector<int> shown_rows(int count, int most);

// `text` on one of the 8 ANSI background colors if the canvas has colors.
std::string painted(const std::string& text, int color, const Canvas& canvas);

}  // namespace trireme
