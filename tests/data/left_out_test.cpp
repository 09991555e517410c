#include "data/left_out.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme::data {
namespace {

using Ranges = std::vector<SampleRange>;

TEST(LeftOut, joins_what_touches_or_overlaps) {
  LeftOut left_out(Ranges{{20, 30}, {5, 8}, {8, 10}, {40, 41}, {29, 35}, {3, 3}});
  EXPECT_EQ(left_out.ranges(), (Ranges{{5, 10}, {20, 35}, {40, 41}}));
  left_out.add({0, 40});
  EXPECT_EQ(left_out.ranges(), (Ranges{{0, 41}}));
  EXPECT_EQ(left_out.count(), 41u);
  EXPECT_EQ(left_out.before(7).ranges(), (Ranges{{0, 7}}));
  EXPECT_EQ(left_out.before(0), LeftOut());
  EXPECT_EQ(left_out.inside({3, 9}).ranges(), (Ranges{{3, 9}}));
  EXPECT_EQ(left_out.inside({41, 50}), LeftOut());
}

TEST(LeftOut, counts_samples_as_if_it_had_never_been_in_the_order) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    LeftOut left_out;
    std::vector<bool> out(120);
    for (int i = 0; i < round % 7; ++i) {
      const std::uint64_t first = random() % 100, end = first + random() % 12;
      left_out.add({first, end});
      for (std::uint64_t sample = first; sample < end; ++sample) out[sample] = true;
    }
    std::uint64_t trained = 0;
    for (std::uint64_t sample = 0; sample < out.size(); ++sample) {
      if (out[sample]) continue;
      EXPECT_EQ(left_out.sample(trained++), sample);
    }
  }
}

}  // namespace
}  // namespace trireme::data
