#include "trainer/loop/weight_drill.h"

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

std::optional<WeightDrill> weight_drill(const char* text) {
  return WeightDrill::from([&](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, WeightDrill::kVariable);
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
}

TEST(WeightDrill, is_none_unless_it_is_asked_for) {
  EXPECT_FALSE(weight_drill(nullptr));
  EXPECT_TRUE(weight_drill("step=5 rank=1 parameter=head.weight bit=0"));
  EXPECT_TRUE(weight_drill("step=5 rank=1 parameter=head.weight bit=0 once=struck"));
}

TEST(WeightDrill, refuses_words_it_does_not_know) {
  for (const char* text : {"", "step=5", "step=0 rank=1 parameter=a bit=3",
                           "step=5 rank=1 parameter=a bit=-1", "step=5 rank=1 parameter=a bit=32",
                           "step=5 rank=1 parameter=a bit=", "step=5 rank=1 parameter=a value=nan",
                           "step=5 rank=1 parameter=a bit=1 times=2"}) {
    EXPECT_THROW(weight_drill(text), ConfigError) << text;
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

TEST(WeightDrill, flips_the_bit_once) {
  Gain gain;
  ParamStore& store = gain.store;
  const float* const values = gain.values;
  auto sign = *weight_drill("step=5 rank=1 parameter=gain bit=31");
  Stream stream;
  sign.strike(stream, store, 1, 4);
  EXPECT_EQ(values[0], 1);
  sign.strike(stream, store, 1, 5);
  EXPECT_EQ(values[0], -1);
  EXPECT_EQ(values[1], 1);
  sign.strike(stream, store, 1, 5);  // taken again after a rollback
  EXPECT_EQ(values[0], -1);
  auto other = *weight_drill("step=5 rank=0 parameter=gain bit=31");
  other.strike(stream, store, 1, 5);
  EXPECT_EQ(values[0], -1);
}

TEST(WeightDrill, can_spare_the_runs_that_are_started_anew) {
  const ScratchFolder folder;
  const std::string text =
      "step=5 rank=1 parameter=gain bit=31 once=" + (folder / "struck").string();
  Stream stream;
  for (const float expected : {-1.0F, 1.0F}) {
    Gain gain;
    weight_drill(text.c_str())->strike(stream, gain.store, 1, 5);
    EXPECT_EQ(gain.values[0], expected);
  }
}

}  // namespace
}  // namespace trireme
