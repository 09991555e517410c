#include "trainer/telemetry/step_line.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

StepLine of(std::int64_t step, std::int64_t total) {
  return {.step = step,
          .total = total,
          .loss = 3.25,
          .grad_norm = 0.5,
          .lr = 6e-4,
          .tokens_per_second = 56100,
          .mfu = 0.4,
          .memory_bytes = 1u << 30,
          .seconds_left = 72.0};
}

TEST(StepLine, has_a_form_for_each_width) {
  const StepLine line = of(40, 400);
  EXPECT_EQ(step_form(line, 120), StepForm::kFull);
  EXPECT_EQ(step_line(line, StepForm::kFull),
            "step  40/400 | loss 3.2500 | norm 0.5000 | lr 6.00e-04 | 56.1k tok/s | MFU 40.0% | "
            "1.00 GiB | ETA 1m12s");
  EXPECT_EQ(step_line(line, StepForm::kShort),
            "step  40/400 loss 3.2500 norm 0.500 lr 6.0e-4 56.1k tok/s MFU 40% 1.00 GiB ETA 1m12s");
  EXPECT_EQ(step_line(line, StepForm::kNoTotal),
            "step  40 loss 3.2500 norm 0.500 lr 6.0e-4 56.1k tok/s MFU 40% 1.00 GiB ETA 1m12s");
  EXPECT_EQ(step_line(line, StepForm::kNoMemory),
            "step  40 loss 3.2500 norm 0.500 lr 6.0e-4 56.1k tok/s MFU 40% ETA 1m12s");
}

TEST(StepLine, fits_and_keeps_room_for_a_time_that_is_not_told_yet) {
  for (int width = 76; width < 130; ++width) {
    for (StepLine line : {of(40, 400), of(12345, 50000), of(400000, 500000)}) {
      const StepForm form = step_form(line, width);
      EXPECT_LE(step_line(line, form).size(), static_cast<std::size_t>(width));
      line.seconds_left.reset();
      EXPECT_EQ(step_form(line, width), form) << width;
      line.seconds_left = 3599;
      EXPECT_LE(step_line(line, form).size(), static_cast<std::size_t>(width));
    }
  }
}

TEST(StepLine, small_and_large_numbers_stay_short) {
  StepLine line = of(1, 0);
  line.grad_norm = 54321;
  line.lr = 1e-10;
  EXPECT_EQ(step_line(line, StepForm::kNoMemory),
            "step 1 loss 3.2500 norm 5.4e4 lr 1.0e-10 56.1k tok/s MFU 40% ETA 1m12s");
}

}  // namespace
}  // namespace trireme
