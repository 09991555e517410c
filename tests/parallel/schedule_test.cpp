#include "parallel/pipeline/schedule.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<Schedule> all_stages(int stages, int micro_batches) {
  std::vector<Schedule> all;
  for (int stage = 0; stage < stages; ++stage) {
    all.push_back(one_forward_one_backward(stage, stages, micro_batches));
  }
  return all;
}

TEST(Schedule, one_forward_one_backward_is_sound_and_holds_the_least_in_flight) {
  for (int stages = 1; stages <= 16; ++stages) {
    for (int m = 1; m <= 32; ++m) {
      const std::vector<Schedule> all = all_stages(stages, m);
      EXPECT_EQ(complaint(all, m), "") << stages << " stages, " << m << " micro-batches";
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(most_in_flight(all[static_cast<std::size_t>(stage)]),
                  std::min(stages - stage, m));
      }
    }
  }
}

TEST(Schedule, all_forward_all_backward_is_sound) {
  for (int m = 1; m <= 32; ++m) {
    const std::vector<Schedule> all(4, all_forward_all_backward(m));
    EXPECT_EQ(complaint(all, m), "");
    EXPECT_EQ(most_in_flight(all.front()), m);
  }
}

TEST(Schedule, a_dropped_doubled_or_swapped_action_is_found) {
  const int m = 6;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::vector<Schedule> sound = all_stages(4, m);
    for (std::size_t i = 0; i < sound[stage].size(); ++i) {
      std::vector<Schedule> dropped = sound;
      dropped[stage].erase(dropped[stage].begin() + static_cast<long>(i));
      EXPECT_NE(complaint(dropped, m), "") << "dropped " << stage << " " << i;
      std::vector<Schedule> doubled = sound;
      doubled[stage].push_back(sound[stage][i]);
      EXPECT_NE(complaint(doubled, m), "") << "doubled " << stage << " " << i;
    }
    std::vector<Schedule> backward_first = sound;
    std::swap(backward_first[stage].front(), backward_first[stage].back());
    EXPECT_NE(complaint(backward_first, m), "") << "swapped " << stage;
  }
  std::vector<Schedule> foreign = all_stages(2, m);
  foreign[1][0].micro_batch = m;
  EXPECT_NE(complaint(foreign, m), "");
}

TEST(Schedule, stages_that_wait_for_each_other_are_found) {
  using Kind = Action::Kind;
  // The first stage wants the second gradient first, the second gives the first one first.
  const std::vector<Schedule> crossed{
      {{Kind::kForward, 0}, {Kind::kBackward, 0}, {Kind::kForward, 1}, {Kind::kBackward, 1}},
      {{Kind::kForward, 0}, {Kind::kForward, 1}, {Kind::kBackward, 1}, {Kind::kBackward, 0}}};
  EXPECT_NE(complaint(crossed, 2).find("waits for ever"), std::string::npos);
}

}  // namespace
}  // namespace trireme
