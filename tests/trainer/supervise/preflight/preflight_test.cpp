#include "trainer/supervise/preflight/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "parallel/comm/self_communicator.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class OneRank : public testing::Test {
 protected:
  Preflight preflight_{
      Team(), {"node007"}, [this](const std::string& line) { told_.push_back(line); }};
  std::vector<std::string> told_;
};

TEST_F(OneRank, passes_and_tells_what_was_found) {
  preflight_.make({"depth",
                   [] {
                     return Figures{{"fathoms", 7}};
                   },
                   [](const std::vector<Figures>& by_rank) -> Judgment {
                     return {by_rank.front()["fathoms"].dump() + " fathoms", {}};
                   }});
  EXPECT_NO_THROW(preflight_.require_passed());
  EXPECT_THAT(told_, ElementsAre("ok    depth           7 fathoms"));
  const Figures report = preflight_.report();
  EXPECT_EQ(report["passed"], true);
  EXPECT_EQ(report["hosts"][0], "node007");
  EXPECT_EQ(report["checks"][0]["by_rank"][0]["fathoms"], 7);
}

TEST_F(OneRank, fails_where_a_rank_throws_or_is_accused_and_goes_on_meanwhile) {
  preflight_.make({"hull", []() -> Figures { throw EnvironmentError("a leak\nbelow"); }, {}});
  preflight_.make({"mast", [] { return Figures::object(); },
                   [](const std::vector<Figures>&) -> Judgment {
                     return {"", {{{0}, "shorter than the others"}}};
                   }});
  EXPECT_FALSE(preflight_.passed());
  EXPECT_THAT(told_, ElementsAre(StartsWith("FAIL  hull            rank 0 (node007): a leak below"),
                                 StartsWith("FAIL  mast            rank 0 (node007): shorter")));
  try {
    preflight_.require_passed();
    FAIL();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("preflight: hull: rank 0 (node007): a leak below; mast: "));
    EXPECT_TRUE(error.on_all_ranks());
  }
}

TEST(KnownProduct, has_its_bits_in_every_dtype) {
  SelfCommunicator alone;
  for (const char* dtype : {"float32", "bfloat16", "float16"}) {
    const Figures found = matrix_product(dtype, Device{}, 0.01, alone).measure();
    EXPECT_GT(found["flops"], 0) << dtype;
  }
}

}  // namespace
}  // namespace trireme::preflight
