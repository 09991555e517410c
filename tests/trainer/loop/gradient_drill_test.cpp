#include "trainer/loop/gradient_drill.h"

#include <gtest/gtest.h>

#include "model/base/error.h"

namespace trireme {
namespace {

std::optional<GradientDrill> gradient_drill(const char* text) {
  return GradientDrill::from([&](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, GradientDrill::kVariable);
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
}

TEST(GradientDrill, is_none_unless_it_is_asked_for) {
  EXPECT_FALSE(gradient_drill(nullptr));
  EXPECT_TRUE(gradient_drill("step=5 rank=1 parameter=head.weight value=nan"));
  EXPECT_TRUE(gradient_drill(" value=-1e6  parameter=head.weight rank=0 step=1 "));
}

TEST(GradientDrill, refuses_words_it_does_not_know) {
  for (const char* text :
       {"", "step=5", "step=0 rank=1 parameter=a value=nan", "step=5 rank=-1 parameter=a value=1",
        "step=5 rank=1 parameter=a value=one", "step=5 rank=1 parameter= value=1",
        "step=5 step=6 rank=1 parameter=a value=1", "step=5 rank=1 parameter=a value=1 times=2",
        "step=5 rank=1 parameter=a value=1 now", "step=5 rank=1x parameter=a value=1"}) {
    EXPECT_THROW(gradient_drill(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace trireme
