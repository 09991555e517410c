#include "trainer/loop/inject/parameter.h"

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme::inject {
namespace {

std::optional<GradientInjection> gradient_from(const char* text) {
  return GradientInjection::from([&](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, GradientInjection::kVariable);
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
}

TEST(GradientInjection, is_off_unless_its_variable_is_set) {
  EXPECT_FALSE(gradient_from(nullptr));
  EXPECT_TRUE(gradient_from("step=5 rank=1 parameter=head.weight value=nan"));
  EXPECT_TRUE(gradient_from(" value=-1e6  parameter=head.weight rank=0 step=1 "));
}

TEST(GradientInjection, refuses_invalid_text) {
  for (const char* text :
       {"", "step=5", "step=0 rank=1 parameter=a value=nan", "step=5 rank=-1 parameter=a value=1",
        "step=5 rank=1 parameter=a value=one", "step=5 rank=1 parameter= value=1",
        "step=5 step=6 rank=1 parameter=a value=1", "step=5 rank=1 parameter=a value=1 times=2",
        "step=5 rank=1 parameter=a value=1 now", "step=5 rank=1x parameter=a value=1"}) {
    EXPECT_THROW(gradient_from(text), ConfigError) << text;
  }
}

std::optional<WeightInjection> weight_from(const char* text) {
  return WeightInjection::from([&](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, WeightInjection::kVariable);
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
}

TEST(WeightInjection, is_off_unless_its_variable_is_set) {
  EXPECT_FALSE(weight_from(nullptr));
  EXPECT_TRUE(weight_from("step=5 rank=1 parameter=head.weight bit=0"));
  EXPECT_TRUE(weight_from("step=5 rank=1 parameter=head.weight bit=0 once=injected"));
}

TEST(WeightInjection, refuses_invalid_text) {
  for (const char* text : {"", "step=5", "step=0 rank=1 parameter=a bit=3",
                           "step=5 rank=1 parameter=a bit=-1", "step=5 rank=1 parameter=a bit=32",
                           "step=5 rank=1 parameter=a bit=", "step=5 rank=1 parameter=a value=nan",
                           "step=5 rank=1 parameter=a bit=1 times=2"}) {
    EXPECT_THROW(weight_from(text), ConfigError) << text;
  }
}

struct Gain {
  Gain() {
    store.begin_unit();
    store.declare({.name = "gain", .shape = {3}, .init = Init::kOnes});
    store.allocate({weights, masters, nullptr}, DType::kF32);
    store.initialize(1);
    values = store.weights().front().value.as<float>();
  }
  Arena weights{1 << 20}, masters{0};
  ParamStore store;
  const float* values = nullptr;
};

TEST(WeightInjection, flips_the_bit_once) {
  Gain gain;
  ParamStore& store = gain.store;
  const float* const values = gain.values;
  auto sign = *weight_from("step=5 rank=1 parameter=gain bit=31");
  Stream stream;
  sign.apply(stream, store, 1, 4);
  EXPECT_EQ(values[0], 1);
  sign.apply(stream, store, 1, 5);
  EXPECT_EQ(values[0], -1);
  EXPECT_EQ(values[1], 1);
  sign.apply(stream, store, 1, 5);  // taken again after a rollback
  EXPECT_EQ(values[0], -1);
  auto other = *weight_from("step=5 rank=0 parameter=gain bit=31");
  other.apply(stream, store, 1, 5);
  EXPECT_EQ(values[0], -1);
}

TEST(WeightInjection, happens_once_over_restarts_with_a_once_file) {
  const ScratchFolder folder;
  const std::string text =
      "step=5 rank=1 parameter=gain bit=31 once=" + (folder / "injected").string();
  Stream stream;
  for (const float expected : {-1.0F, 1.0F}) {
    Gain gain;
    weight_from(text.c_str())->apply(stream, gain.store, 1, 5);
    EXPECT_EQ(gain.values[0], expected);
  }
}

}  // namespace
}  // namespace trireme::inject
