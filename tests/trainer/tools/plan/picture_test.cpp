// Memory as bars and a schedule as a timeline, to the width that there is.
#include <gtest/gtest.h>

#include <sstream>

#include "parallel/pipeline/published.h"
#include "trainer/tools/plan/show/memory_bars.h"
#include "trainer/tools/plan/show/schedule_picture.h"

namespace trireme {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Pictures, many_rows_are_shown_by_some_with_both_ends) {
  EXPECT_EQ(shown_rows(1, 16), (std::vector<int>{0}));
  EXPECT_EQ(shown_rows(3, 16), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(shown_rows(9, 3), (std::vector<int>{0, 4, 8}));
}

TEST(Pictures, a_bar_is_divided_as_the_memory_is) {
  LayoutPlan plan;
  plan.places.resize(2);
  for (PipelinePlace& place : plan.places) {
    place.step.memory.weights = 100;
    place.step.memory.optimizer = 200;
    place.step.memory.in_flight = {{.slots = 2, .activations = 50}};
    place.device_bytes = place.step.memory.total();
  }
  const std::vector<std::string> lines = lines_of(memory_bars(plan, 800, {.columns = 65}));
  const std::string bar = lines.at(0).substr(11, 40);
  EXPECT_EQ(bar, "WWWWWOOOOOOOOOOAAAAA....................");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 65u) << line;
  const std::string colored = memory_bars(plan, 800, {.columns = 65, .colors = true});
  EXPECT_NE(colored.find("\x1b[30;44mWWWWW\x1b[0m"), std::string::npos);
}

TEST(Pictures, a_timeline_shows_what_is_done_when) {
  const Schedule schedule = gpipe({2, 2, 1});
  const Timeline timeline = simulate(schedule, ActionCosts::unit(2));
  // Two forwards of 1, two backwards of 2, and one of each to wait: 9 units.
  const std::vector<std::string> lines =
      lines_of(schedule_picture(schedule, timeline, {.columns = 12 + 18}));
  EXPECT_EQ(lines.at(0), "pp rank 0 |FFFF......BBBBBBBB|");
  EXPECT_EQ(lines.at(1), "pp rank 1 |..FFFFBBBBBBBB....|");
  EXPECT_EQ(busy_columns(schedule.ranks[0], timeline.ranks[0], timeline.makespan, 9), "FF...BBBB");
}

}  // namespace
}  // namespace trireme
