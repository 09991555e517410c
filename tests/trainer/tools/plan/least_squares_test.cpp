#include "trainer/tools/plan/calibrate/least_squares.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(LeastSquares, FindsWhatMadeTheMeasurements) {
  std::vector<Measurement<3>> all;
  for (const double rows : {64.0, 128.0, 1024.0}) {
    for (const double depth : {32.0, 256.0, 2048.0}) {
      Measurement<3> one{.known = 0.25, .parts = {rows * depth, rows, depth}};
      one.seconds = one.known + 3 * one.parts[0] + 50 * one.parts[1];
      all.push_back(one);
    }
  }
  const auto [both, of_rows, of_depth] = least_squares(all);
  EXPECT_NEAR(both, 3, 1e-3);
  EXPECT_NEAR(of_rows, 50, 0.5);
  EXPECT_NEAR(of_depth, 0, 0.5);
}

TEST(LeastSquares, NeverGoesBelowZero) {
  std::vector<Measurement<2>> all;
  for (const double n : {1.0, 2.0, 4.0, 8.0})
    all.push_back({.seconds = n * n, .parts = {n, n * n}});
  all.push_back({.seconds = 5, .parts = {10, 1}});
  for (const double factor : least_squares(all)) EXPECT_GE(factor, 0);
}

}  // namespace
}  // namespace trireme
