#include "trainer/tools/audit/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::HasSubstr;

LedgerStep step_of(data::SampleRange samples, std::vector<data::SampleRange> left_out,
                   std::int64_t sequences) {
  LedgerStep step;
  step.step = 9;
  step.samples = samples;
  step.left_out = std::move(left_out);
  step.sequences = sequences;
  return step;
}

TEST(Window, is_sound_when_every_sample_is_trained_on_or_left_out) {
  EXPECT_EQ(complaint_of_window(step_of({12, 16}, {}, 4), 12), "");
  EXPECT_EQ(complaint_of_window(step_of({14, 18}, {{12, 14}}, 4), 12), "");
  EXPECT_EQ(complaint_of_window(step_of({12, 18}, {{13, 15}}, 4), 12), "");
  EXPECT_EQ(complaint_of_window(step_of({14, 20}, {{12, 14}, {15, 16}, {18, 19}}, 4), 12), "");
}

TEST(Window, says_what_is_wrong_with_it) {
  const auto wrong = [](const LedgerStep& step) { return complaint_of_window(step, 12); };
  EXPECT_THAT(wrong(step_of({10, 14}, {}, 4)), HasSubstr("samples 10 to 11 again"));
  EXPECT_THAT(wrong(step_of({3, 7}, {}, 4)), HasSubstr("samples 3 to 6 again"));
  EXPECT_THAT(wrong(step_of({13, 17}, {}, 4)), HasSubstr("but samples from 12 on"));
  EXPECT_THAT(wrong(step_of({16, 20}, {{12, 15}}, 4)), HasSubstr("but samples from 15 on"));
  EXPECT_THAT(wrong(step_of({12, 17}, {}, 4)), HasSubstr("has 5 sequences, not 4"));
  EXPECT_THAT(wrong(step_of({12, 16}, {{14, 15}}, 4)), HasSubstr("has 3 sequences, not 4"));
  EXPECT_THAT(wrong(step_of({12, 16}, {{2, 3}}, 4)), HasSubstr("not between"));
  EXPECT_THAT(wrong(step_of({12, 16}, {{16, 17}}, 4)), HasSubstr("not between"));
}

TEST(Window, what_is_left_out_needs_a_reason) {
  ExclusionReasons reasons({{.step = 9, .range = {30, 34}}, {.step = 7, .range = {20, 24}}});
  EXPECT_EQ(reasons.complaint(step_of({34, 38}, {{30, 34}}, 4)), "");
  EXPECT_THAT(reasons.complaint(step_of({34, 38}, {{28, 34}}, 4)), HasSubstr("samples 28 to 33"));
  EXPECT_THAT(reasons.complaint(step_of({24, 28}, {{20, 24}}, 4)), HasSubstr("samples 20 to 23"));
  reasons.add({{28, 30}});
  EXPECT_EQ(reasons.complaint(step_of({34, 38}, {{28, 34}}, 4)), "");
}

}  // namespace
}  // namespace trireme
