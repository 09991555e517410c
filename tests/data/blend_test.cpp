#include "data/blend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/base/philox.h"

namespace trireme::data {
namespace {

void expect_fair(const std::vector<double>& weights, std::uint64_t samples) {
  const Blend blend(weights);
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<std::uint64_t> counts(weights.size(), 0);
  for (std::uint64_t n = 0; n < samples; ++n) {
    const Blend::Pick pick = blend(n);
    ASSERT_EQ(pick.index, counts[pick.source]) << "sample " << n;
    ++counts[pick.source];
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double lag =
          static_cast<double>(counts[i]) - static_cast<double>(n + 1) * blend.share(i);
      ASSERT_LT(std::abs(lag), 1 + 1e-6) << "source " << i << " after " << n + 1;
    }
  }
  EXPECT_EQ(blend.counts(samples), counts);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(blend.share(i), weights[i] / sum, 1.0 / (1 << 20));
  }
}

TEST(BlendTest, counts_stay_within_one_of_the_shares) {
  expect_fair({1}, 100);
  expect_fair({1, 1}, 100);
  expect_fair({0.7, 0.3}, 5000);
  expect_fair({1, 2, 3, 4}, 5000);
  expect_fair({0.9, 0.05, 0.03, 0.02}, 5000);
  expect_fair({99, 1}, 5000);
  expect_fair({1, 3.14159265358979}, 5000);
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    std::vector<double> weights;
    const std::uint64_t count = 2 + trial;
    for (std::uint64_t i = 0; i < count; ++i) {
      weights.push_back(1e-3 + static_cast<double>(philox(trial, i)[0]) / 4294967296.0);
    }
    SCOPED_TRACE(trial);
    expect_fair(weights, 3000);
  }
}

TEST(BlendTest, decimal_weights_are_met_exactly) {
  EXPECT_EQ(Blend(std::vector{0.7, 0.3}).period(), 10u);
  EXPECT_EQ(Blend(std::vector{1.0, 1.0, 1.0}).period(), 3u);
  EXPECT_EQ(Blend(std::vector{5.0}).period(), 1u);
}

TEST(BlendTest, far_samples_agree_with_near_ones_a_period_before) {
  const Blend blend(std::vector{3.0, 4.0, 5.0});
  const std::uint64_t far = std::uint64_t{1} << 60;
  const std::uint64_t shift = far - far % blend.period();
  for (std::uint64_t n = 0; n < 24; ++n) {
    EXPECT_EQ(blend(shift + n).source, blend(n).source);
    EXPECT_EQ(blend(shift + n).index, blend(n).index + shift / 12 * (3 + blend(n).source));
  }
}

TEST(BlendTest, many_sources_of_very_different_weight_all_come) {
  std::vector<double> weights(1000, 1e-9);
  weights[0] = 1;
  const Blend blend(weights);
  const auto counts = blend.counts(blend.period());
  for (std::size_t i = 1; i < counts.size(); ++i) EXPECT_EQ(counts[i], 1u);
}

TEST(BlendTest, weights_that_are_no_shares_are_refused) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(Blend(std::vector{1.0, bad}), ConfigError);
  }
  EXPECT_THROW(Blend(std::vector<double>{}), ConfigError);
}

}  // namespace
}  // namespace trireme::data
