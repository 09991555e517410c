#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/tools/plan/published_memory.h"
#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {
namespace {

const std::vector<Run>& runs() {
  static const std::vector<Run> kRuns = read(TRIREME_PUBLISHED_RUNS);
  return kRuns;
}

double off(const Run& run) {
  return std::abs(error(run, profile_of(run.gpu)));
}

std::vector<double> errors_of(const char* source) {
  std::vector<double> errors;
  for (const auto& run : runs()) {
    if (run.source.find(source) != std::string::npos) errors.push_back(off(run));
  }
  return errors;
}

TEST(PublishedRuns, ThoseForTestingArePredicted) {
  std::vector<double> errors;
  for (const auto& run : runs()) {
    if (run.reason.empty() && !run.fitted) errors.push_back(off(run));
  }
  EXPECT_GE(errors.size(), 40U);
  EXPECT_LE(median(errors), 0.07);
  EXPECT_LE(percentile(errors, 0.9), 0.2);
}

TEST(PublishedRuns, SequenceParallelismAndRecomputationArePredicted) {
  const std::vector<double> errors = errors_of("Korthikanti");
  ASSERT_EQ(errors.size(), 8U);
  double sum = 0;
  for (const double error : errors) sum += error;
  EXPECT_LE(sum / 8, 0.0365);
  EXPECT_LE(percentile(errors, 1), 0.089);
}

TEST(PublishedRuns, MemoryIsAsPublished) {
  for (const Memory& memory : korthikanti_memory(runs())) {
    EXPECT_NEAR(memory.counted / memory.published, 1, 0.085) << memory.model << memory.what;
  }
}

// From 363.66 over 345.51 to 158.1 TFLOP/s a GPU with 2, 4 and 16 tensor ranks, nodes having 8.
TEST(PublishedRuns, TensorParallelismOutOfTheNodeLosesHalf) {
  std::vector<double> rates;
  for (const auto& run : runs()) {
    if (run.source.find("TP sweep") == std::string::npos) continue;
    const double seconds = estimate(run, profile_of(run.gpu)).seconds;
    rates.push_back(static_cast<double>(run.work.tokens()) /
                    (seconds * static_cast<double>(run.work.ranks())));
  }
  ASSERT_EQ(rates.size(), 3U);
  EXPECT_NEAR(rates[1] / rates[0], 345.51 / 363.66, 0.08);
  EXPECT_NEAR(rates[2] / rates[0], 158.1 / 363.66, 0.08);
}

}  // namespace
}  // namespace trireme::published
