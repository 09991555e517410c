#include "trainer/tools/report/thin_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace trireme {
namespace {

Series noisy(std::int64_t length) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.1);
  Series series;
  for (std::int64_t step = 1; step <= length; ++step) {
    series.steps.push_back(step);
    series.values.push_back(10 / std::sqrt(static_cast<double>(step)) + noise(random));
  }
  return series;
}

TEST(ThinOut, a_short_curve_stays_whole) {
  const Series series = noisy(2000);
  const ThinCurve thin = thin_out(series);
  EXPECT_EQ(thin.steps, series.steps);
  EXPECT_EQ(thin.values, series.values);
  EXPECT_EQ(thin.means, series.values);
  EXPECT_TRUE(thin_out({}).steps.empty());
}

TEST(ThinOut, a_long_curve_keeps_its_ends_and_every_extreme) {
  Series series = noisy(1'000'000);
  series.values[123'456] = 50;
  series.values[765'432] = -50;
  const ThinCurve thin = thin_out(series);
  EXPECT_LE(thin.steps.size(), 2000u);
  EXPECT_GE(thin.steps.size(), 1000u);
  EXPECT_EQ(thin.steps.front(), 1);
  EXPECT_EQ(thin.steps.back(), 1'000'000);
  EXPECT_TRUE(std::is_sorted(thin.steps.begin(), thin.steps.end()));
  EXPECT_EQ(std::adjacent_find(thin.steps.begin(), thin.steps.end()), thin.steps.end());
  // What a screen column of a thousandth of the width shows: its lowest and highest.
  constexpr std::size_t kColumn = 5000;
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < series.values.size(); begin += kColumn) {
    const auto first = series.values.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto [low, high] = std::minmax_element(first, first + kColumn);
    double thin_low = INFINITY;
    double thin_high = -INFINITY;
    for (; at < thin.steps.size() && thin.steps[at] <= static_cast<std::int64_t>(begin + kColumn);
         ++at) {
      thin_low = std::min(thin_low, thin.values[at]);
      thin_high = std::max(thin_high, thin.values[at]);
    }
    // A bucket may straddle two columns, so only rare extremes must be exact.
    EXPECT_NEAR(thin_low, *low, 0.15) << begin;
    EXPECT_NEAR(thin_high, *high, 0.15) << begin;
  }
  EXPECT_EQ(*std::max_element(thin.values.begin(), thin.values.end()), 50);
  EXPECT_EQ(*std::min_element(thin.values.begin(), thin.values.end()), -50);
}

TEST(ThinOut, the_beginning_is_dense_enough_for_a_logarithmic_axis) {
  const ThinCurve thin = thin_out(noisy(1'000'000));
  const auto early = std::lower_bound(thin.steps.begin(), thin.steps.end(), 1000);
  // Half the decades, half the 222 logarithmic buckets; the first hold less than a step.
  EXPECT_GE(early - thin.steps.begin(), 100);
}

TEST(ThinOut, a_single_broken_value_is_kept) {
  Series series = noisy(100'000);
  series.values[54'321] = std::nan("");
  const ThinCurve thin = thin_out(series);
  const auto broken = std::find_if(thin.values.begin(), thin.values.end(),
                                   [](double value) { return std::isnan(value); });
  ASSERT_NE(broken, thin.values.end());
  EXPECT_EQ(thin.steps[broken - thin.values.begin()], 54'322);
}

TEST(ThinOut, the_means_keep_the_mean_of_the_whole) {
  const Series series = noisy(50'000);
  const ThinCurve thin = thin_out(series);
  double whole = 0;
  for (const double value : series.values) whole += value;
  double weighted = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < thin.steps.size(); ++i) {
    weighted += thin.means[i] * static_cast<double>(thin.steps[i] - before);
    before = thin.steps[i];
  }
  EXPECT_NEAR(weighted, whole, 1e-9 * whole);  // the order of summation
}

}  // namespace
}  // namespace trireme
