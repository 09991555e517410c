#pragma once
#include <string>

#include "trainer/tools/plan/layout_plan.h"

namespace trireme {

// How a picture is drawn in a terminal.
struct Canvas {
  int columns = 80;
  bool colors = false;
};

// A bar for each place in the pipeline, of every class of memory in its own letter (and color),
// on the scale of the larger of `available` bytes and the fullest rank; then the letters' meaning.
// Of many places the first, the last and some between them.
std::string memory_bars(const LayoutPlan& plan, double available, const Canvas& canvas);

inline constexpr int kMostRows = 16;  // of a picture in a terminal
// Which of `count` rows are shown where there is room for `most`: evenly, with both ends.
std::vector<int> shown_rows(int count, int most);

// `text` in one of the 8 colors of a terminal's background, where the canvas has any.
std::string painted(const std::string& text, int color, const Canvas& canvas);

}  // namespace trireme
