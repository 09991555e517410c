#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "trainer/tools/plan/device/device_profile.h"
#include "trainer/tools/plan/estimate/op_time.h"

namespace trireme {
namespace {

// Kernels of a B200 as timed by SimuMax with cuBLAS and cuDNN through Transformer Engine 2.11
// (github.com/MooreThreads/SimuMax at 4dcaae5, configs/system/b200_bf16_ceperm.json), as shares of
// 2250 TFLOP/s. Of its matmuls those of Llama 3 70B and 405B with at least 2 TFLOP.
constexpr double kPeak = 2250e12;
struct TimedMatmul {
  double rows, columns, depth, share;
  bool adds;  // to a float32 gradient
};
constexpr std::array<TimedMatmul, 21> kMatmuls{
    {{4096, 57344, 8192, 0.487, false},   {4096, 8192, 57344, 0.483, false},
     {57344, 8192, 4096, 0.454, true},    {4096, 128256, 8192, 0.487, false},
     {4096, 8192, 128256, 0.471, false},  {128256, 8192, 4096, 0.455, true},
     {4096, 20480, 16384, 0.533, false},  {4096, 16384, 20480, 0.513, false},
     {20480, 16384, 4096, 0.455, true},   {4096, 16384, 16384, 0.510, false},
     {4096, 16384, 16384, 0.515, false},  {16384, 16384, 4096, 0.452, true},
     {4096, 106496, 16384, 0.496, false}, {4096, 16384, 106496, 0.512, false},
     {106496, 16384, 4096, 0.456, true},  {4096, 16384, 53248, 0.511, false},
     {4096, 53248, 16384, 0.501, false},  {16384, 53248, 4096, 0.454, true},
     {4096, 128256, 16384, 0.491, false}, {4096, 16384, 128256, 0.511, false},
     {128256, 16384, 4096, 0.455, true}}};
// Causal, heads of 128. The shares count both halves of the mask.
struct TimedAttention {
  double heads, keys, forward, backward;
};
constexpr std::array<TimedAttention, 2> kAttentions{
    {{16, 131072, 0.989, 0.827}, {8, 131072, 1.003, 0.826}}};

double seconds_on_b200(const PlannedOp& op) {
  return list_time({op}, Workload(), find_profile("B200")).seconds();
}

// Predicted over measured time.
double ratio(const TimedMatmul& timed) {
  const double flops = 2 * timed.rows * timed.columns * timed.depth;
  return seconds_on_b200({.kind = PlannedOp::Kind::kMatmul,
                          .element = 2,
                          .rows = timed.rows,
                          .columns = timed.columns,
                          .depth = timed.depth,
                          .flops = flops,
                          .bytes = 2 * (timed.rows + timed.columns) * timed.depth,
                          .result_bytes = timed.rows * timed.columns * (timed.adds ? 8 : 2)}) *
         timed.share * kPeak / flops;
}

// Of the forward and the backward together, by which the planner knows attention.
double ratio(const TimedAttention& timed) {
  constexpr double kWidth = 128;
  const double product = timed.keys * timed.keys * timed.heads * kWidth;  // of the causal half
  const auto op = [&](double products, double recomputed) {
    return PlannedOp{.kind = PlannedOp::Kind::kAttention,
                     .name = "attention",
                     .element = 2,
                     .rows = timed.keys * timed.heads,
                     .columns = timed.keys,
                     .depth = kWidth,
                     .flops = products * product,
                     .recomputed_flops = recomputed * product};
  };
  const double measured = product / kPeak * (2 / (timed.forward / 2) + 5 / (timed.backward / 2));
  return (seconds_on_b200(op(2, 0)) + seconds_on_b200(op(4, 1))) / measured;
}

// Their power lowers the clock, by the energy that was derived from them.
TEST(SingleKernels, OfAB200TakeAsLongAsMeasured) {
  std::vector<double> ratios;
  for (const TimedMatmul& timed : kMatmuls) {
    ratios.push_back(ratio(timed));
    EXPECT_NEAR(ratios.back(), 1, 0.1) << timed.rows << " x " << timed.columns;
  }
  std::nth_element(ratios.begin(), ratios.begin() + ratios.size() / 2, ratios.end());
  EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.025);
  for (const TimedAttention& timed : kAttentions) EXPECT_NEAR(ratio(timed), 1, 0.01);
}

// A lower limit slows attention less than matmuls, which take more energy.
TEST(SingleKernels, OfALowerPowerLimitAreSlower) {
  const auto of = [](const char* name) { return find_profile(name).rate(NumberFormat::kHalf); };
  const double matmuls = of("H100-500W").product / of("H100").product;
  const double attention = of("H100-500W").flash / of("H100").flash;
  EXPECT_LT(matmuls, attention);
  EXPECT_LT(attention, 0.97);
  EXPECT_LE(of("A100-40G-PCIe").flash, of("A100-40G").flash);
  EXPECT_LT(of("B200").flash, of("B300").flash);
}

}  // namespace
}  // namespace trireme
