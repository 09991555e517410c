#include "trainer/loop/loss_scaler.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kOverflow = std::numeric_limits<double>::infinity();

LossScaler scaler_of(std::int64_t init, std::int64_t interval, const char* dtype = "float16") {
  TrainingConfig config;
  config.dtype = dtype;
  config.loss_scale_init = init;
  config.loss_scale_growth_interval = interval;
  return LossScaler(config);
}

TEST(LossScaler, halves_on_an_overflow_and_doubles_after_good_steps) {
  LossScaler scaler = scaler_of(1024, 3);
  scaler.accept();
  scaler.accept();
  scaler.halve();  // the two are forgotten
  EXPECT_EQ(scaler.scale(), 512);
  for (const double expected : {512, 512, 1024, 1024, 1024, 2048}) {
    scaler.accept();
    EXPECT_EQ(scaler.scale(), expected);
  }
  EXPECT_EQ(scaler.overflows(), 1);
}

TEST(LossScaler, answers_gradients_that_are_not_finite_though_the_loss_is) {
  const LossScaler scaler = scaler_of(2, 1);
  EXPECT_TRUE(scaler.is_overflow(5, kOverflow));
  EXPECT_TRUE(scaler.is_overflow(5, kNotANumber));
  EXPECT_FALSE(scaler.is_overflow(kNotANumber, kNotANumber));
  EXPECT_FALSE(scaler.is_overflow(kOverflow, kNotANumber));
  EXPECT_FALSE(scaler.is_overflow(5, 1e9));  // a spike
}

TEST(LossScaler, leaves_the_rest_to_others_at_its_least_scale) {
  LossScaler scaler = scaler_of(4, 1);
  while (scaler.is_overflow(5, kOverflow)) scaler.halve();
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.overflows(), 2);
}

TEST(LossScaler, grows_no_further_than_the_most) {
  LossScaler scaler = scaler_of(kMostLossScale / 2, 1);
  for (int i = 0; i < 3; ++i) scaler.accept();
  EXPECT_EQ(scaler.scale(), static_cast<double>(kMostLossScale));
}

TEST(LossScaler, is_one_for_good_in_other_dtypes_and_keeps_nothing) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    LossScaler scaler = scaler_of(1024, 1, dtype);
    scaler.accept();
    EXPECT_EQ(scaler.scale(), 1);
    EXPECT_FALSE(scaler.scales() || scaler.is_overflow(5, kOverflow));
    nlohmann::json scalars = nlohmann::json::object();
    scaler.write(scalars);
    EXPECT_TRUE(scalars.empty());
  }
}

TEST(LossScaler, goes_on_from_a_checkpoint_as_if_nothing_had_happened) {
  LossScaler scaler = scaler_of(1024, 5);
  scaler.halve();
  for (int i = 0; i < 3; ++i) scaler.accept();
  nlohmann::json scalars = nlohmann::json::object();
  scaler.write(scalars);
  scalars = nlohmann::json::parse(scalars.dump());
  LossScaler again = scaler_of(1024, 5), rolled_back = scaler;
  again.read(scalars, true);
  rolled_back.halve();
  rolled_back.read(scalars, false);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(again.scale(), scaler.scale());
    EXPECT_EQ(rolled_back.scale(), scaler.scale());
    for (LossScaler* each : {&scaler, &again, &rolled_back}) each->accept();
  }
  EXPECT_EQ(again.overflows(), 1);
  EXPECT_EQ(rolled_back.overflows(), 2);  // a rollback undoes steps, not what was counted
  EXPECT_THROW(again.read({{"loss_scale", 3}}, true), nlohmann::json::exception);
}

}  // namespace
}  // namespace trireme
