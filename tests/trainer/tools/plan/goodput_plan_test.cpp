#include "trainer/tools/plan/goodput/goodput_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"
#include "trainer/tools/plan/goodput/measured_costs.h"
#include "trainer/tools/plan/goodput/save_interval.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme {
namespace {

double total(const GoodputShares& shares) {
  double sum = shares.useful;
  for (const GoodputPart& part : kGoodputLosses) sum += shares.*part.share;
  return sum;
}

FailureModel one_level(double save, double restart, double between) {
  return {.between = between,
          .kinds = {{.name = "kill",
                     .share = 1,
                     .detect = restart / 4,
                     .restart = restart * 3 / 4,
                     .from_disk = true}},
          .save = save};
}

FailureModel two_levels(double to_disk) {
  return {.between = 5000,
          .kinds = {{.name = "kill", .share = 1 - to_disk, .detect = 2, .restart = 60},
                    {.name = "node",
                     .share = to_disk,
                     .detect = 30,
                     .restart = 200,
                     .from_disk = true,
                     .loses_node = true}},
          .snapshot = 0.5,
          .save = 4,
          .write = 40};
}

RunConfig run_of(int ranks, const std::string& keys) {
  const ConfigText text{.name = "run",
                        .toml =
                            "[model]\nflavor = \"llama3-8b\"\n"
                            "[training]\nseq_len = 4096\nglobal_batch_size = 64\n"
                            "dtype = \"bfloat16\"\nsteps = 10000\n" +
                            keys,
                        .folder = "/"};
  RunConfig config = for_ranks(read_config(text, {}, Purpose::kPlanning), ranks).config;
  config.job.device = "cuda";
  return config;
}

RunPlan planned(const RunConfig& config, const FailureOptions& failures) {
  const DeviceProfile profile = find_profile("H100");
  return plan_run(config, profile, profile.device(), {.failures = failures});
}

double share_of(const FailureModel& model, const std::string& name, bool from_disk) {
  for (const FailureKind& kind : model.kinds) {
    if (kind.name == name && kind.from_disk == from_disk) return kind.share;
  }
  return 0;
}

// Daly 2006: a run takes M e^(R/M) (e^((work + save)/M) - 1) for every `work` seconds.
TEST(Goodput, OneLevelIsDalysExpectedTime) {
  for (const auto& [work, save, restart, between] : {std::array{100.0, 5.0, 30.0, 1000.0},
                                                     {20, 5, 30, 1000},
                                                     {400, 5, 200, 1000},
                                                     {900, 60, 400, 500}}) {
    const GoodputShares shares =
        expected_goodput(one_level(save, restart, between), {.seconds = work});
    EXPECT_NEAR(
        shares.useful,
        work / (between * std::exp(restart / between) * std::expm1((work + save) / between)),
        1e-12);
    EXPECT_NEAR(shares.saves / shares.useful, save / work, 1e-12);
    EXPECT_NEAR(total(shares), 1, 1e-12);
  }
}

TEST(Goodput, FailuresThatAreRareLeaveOnlyTheSaves) {
  FailureModel model = two_levels(0.2);
  model.between = 1e15;
  const GoodputShares shares = expected_goodput(model, {.seconds = 100, .per_disk = 5});
  EXPECT_NEAR(shares.useful, 500 / (500 + 5 * 0.5 + 4), 1e-9);
  EXPECT_NEAR(shares.saves, 6.5 / 506.5, 1e-9);
}

// The limits of two levels: all failures go back to the last snapshot, or all to the checkpoint,
// where a block of cycles is as one cycle of their length.
TEST(Goodput, TwoLevelsEndInOne) {
  FailureModel memory = two_levels(0.5), disk = two_levels(0.5), block = two_levels(0.5);
  memory.write = disk.write = block.write = 0;
  for (FailureKind& kind : memory.kinds) kind.from_disk = false;
  for (FailureModel* all : {&disk, &block}) {
    for (FailureKind& kind : all->kinds) kind.from_disk = true;
  }
  block.save += 5 * block.snapshot;
  block.snapshot = 0;
  EXPECT_NEAR(expected_goodput(disk, {.seconds = 100, .per_disk = 5}).useful,
              expected_goodput(block, {.seconds = 500}).useful, 1e-9);
  memory.save = 0;
  EXPECT_NEAR(expected_goodput(memory, {.seconds = 100, .per_disk = 5}).useful,
              expected_goodput(memory, {.seconds = 100}).useful, 1e-12);
}

TEST(Goodput, SharesSumToOneAndMissingNodesSlowTheRun) {
  for (const double to_disk : {0.0, 0.1, 1.0}) {
    FailureModel model = two_levels(to_disk);
    const GoodputShares before = expected_goodput(model, {.seconds = 100, .per_disk = 5});
    EXPECT_NEAR(total(before), 1, 1e-12);
    EXPECT_EQ(before.fewer_nodes, 0);
    model.repair = {.seconds = 10000, .speed_lost = 0.05, .growth = 50};
    const GoodputShares after = expected_goodput(model, {.seconds = 100, .per_disk = 5});
    EXPECT_NEAR(total(after), 1, 1e-12);
    EXPECT_NEAR(model.missing_nodes(), 2 * to_disk, 1e-12);
    EXPECT_NEAR(after.fewer_nodes / (after.useful + after.fewer_nodes), 0.1 * to_disk, 1e-12);
    for (const GoodputPart& part : kGoodputLosses) EXPECT_GE(after.*part.share, 0) << part.name;
  }
}

TEST(Goodput, BestIntervalsAreThoseOfAllThatAreTried) {
  const double step = 7;
  const FailureModel disk = one_level(5, 60, 3000);
  const IntervalPlan found = best_intervals(disk, step, 1000, false);
  for (std::int64_t steps = 1; steps <= 1000; ++steps) {
    EXPECT_LE(expected_goodput(disk, intervals_of({.disk = steps}, step)).useful,
              found.shares.useful);
  }
  EXPECT_NEAR(static_cast<double>(found.disk) * step, daly_interval(5, 3000), step);
  const FailureModel both = two_levels(0.1);
  const IntervalPlan levels = best_intervals(both, step, 1000, true);
  EXPECT_GT(levels.memory, 0);
  EXPECT_GT(levels.disk, levels.memory);
  for (std::int64_t memory = 1; memory <= 60; ++memory) {
    for (std::int64_t count = 1; count <= 60; ++count) {
      if (static_cast<double>(count * memory) * step < both.write) continue;
      EXPECT_LE(
          expected_goodput(both, intervals_of({.disk = count * memory, .memory = memory}, step))
              .useful,
          levels.shares.useful + 1e-12)
          << memory << " " << count;
    }
  }
}

TEST(Goodput, FailuresAreThoseOfAllDevicesAndTheTimeoutsTheConfigs) {
  const RunConfig config =
      run_of(16, "[elastic]\nstall_timeout_s = 77\nheartbeat_timeout_s = 11\n");
  const RunPlan plan = planned(config, {.per_device_year = 2});
  const FailureModel& model = plan.goodput->costs.model;
  EXPECT_DOUBLE_EQ(model.between, 365.25 * 86400 / 32);
  EXPECT_DOUBLE_EQ(planned(config, {.mtbf_hours = 5}).goodput->costs.model.between, 18000);
  EXPECT_NEAR(published_failures_per_device_year(), 419 / (16384 * 54 / 365.25), 1e-12);
  double shares = 0;
  for (const FailureKind& kind : model.kinds) {
    shares += kind.share;
    EXPECT_TRUE(kind.from_disk) << "there are no snapshots in memory";
    if (kind.name == "kill") {
      EXPECT_LT(kind.detect, 1);
    } else {
      EXPECT_EQ(kind.detect, kind.name == "hang" ? 77 : 11);
    }
  }
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_NEAR(plan.elapsed * plan.goodput->configured.shares.useful, plan.seconds,
              1e-6 * plan.seconds);
  EXPECT_EQ(plan.goodput->configured.disk, 500);
}

TEST(Goodput, SnapshotsInMemorySurviveWhatTheirNodesSurvive) {
  const std::string keys = "[elastic]\nmemory_interval = 10\n";
  const FailureModel two = planned(run_of(16, keys), {.mtbf_hours = 5}).goodput->costs.model;
  const FailureModel one = planned(run_of(8, keys), {.mtbf_hours = 5}).goodput->costs.model;
  EXPECT_GT(share_of(two, "node", false), share_of(two, "node", true));
  EXPECT_EQ(share_of(one, "node", false), 0) << "one node has no copy on another";
  EXPECT_GT(share_of(one, "kill", false), 0);
  EXPECT_GT(two.snapshot, 0);
}

TEST(Goodput, ARunThatCannotShrinkWaitsForTheRepair) {
  const FailureOptions failures{.mtbf_hours = 24, .repair_hours = 2};
  const auto node_restart = [](const FailureModel& model) {
    for (const FailureKind& kind : model.kinds) {
      if (kind.loses_node) return kind.restart;
    }
    return 0.0;
  };
  const FailureModel shrinks = planned(run_of(32, ""), failures).goodput->costs.model;
  EXPECT_EQ(shrinks.repair.seconds, 7200);
  EXPECT_EQ(shrinks.repair.speed_lost, 0.25);
  const FailureModel waits =
      planned(run_of(32, "[elastic]\nmin_data_parallel = 32\n"), failures).goodput->costs.model;
  EXPECT_EQ(waits.repair.seconds, 0);
  EXPECT_NEAR(node_restart(waits) - node_restart(shrinks), 7200, 1e-6);
}

TEST(Goodput, CostsOfTheRunFolderReplaceTheAssumed) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "goodput_run";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "events.jsonl")
      << R"({"event":"start","step":0})"
         "\n"
         R"({"event":"checkpoint","step":5,"stopped_seconds":3})"
         "\n"
         R"({"event":"checkpoint","step":9,"stopped_seconds":9})"
         "\n"
         R"({"event":"checkpoint","step":12,"stopped_seconds":4})"
         "\n"
         R"({"event":"recovered","end_seconds":2,"relaunch_seconds":40,"load_seconds":7})"
         "\n"
         R"({"event":"memory_snapshots","count":3,"mean_seconds":0.25})"
         "\n";
  std::ofstream(folder / "config.toml") << "";
  const MeasuredCosts costs = measured_costs(folder);
  EXPECT_EQ(costs.save, 4);
  EXPECT_EQ(costs.restart, 42);
  EXPECT_EQ(costs.snapshot, 0.25);
  EXPECT_FALSE(measured_costs(folder / "absent").save);
  RunConfig config = run_of(16, "[elastic]\nmemory_interval = 10\n");
  config.job.dump_folder = folder.string();
  const RunPlan plan = planned(config, {.mtbf_hours = 5});
  const FailureModel& model = plan.goodput->costs.model;
  EXPECT_EQ(model.save, 4);
  EXPECT_EQ(model.snapshot, 0.25);
  EXPECT_NEAR(model.kinds.front().restart, 42 + plan.estimate.seconds, 1e-9);
  EXPECT_EQ(plan.goodput->costs.saves_are, "measured in the run folder");
  const RunPlan given =
      planned(config, {.mtbf_hours = 5, .save_seconds = 1.5, .restart_seconds = 30});
  EXPECT_EQ(given.goodput->costs.model.save, 1.5);
  EXPECT_EQ(given.goodput->costs.model.kinds.front().restart, 30);
  std::filesystem::remove_all(folder);
}

TEST(Goodput, WhatLeavesNoTimeToTrainIsRefusedWithWhatWould) {
  const RunConfig config = run_of(16, "[checkpoint]\ninterval = 0\n");
  try {
    planned(config, {.mtbf_hours = 0.3});
    FAIL() << "a run that starts over at each failure never ends";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("better: checkpoint.interval = "), std::string::npos)
        << error.what();
  }
  const RunConfig deaf = run_of(16, "[elastic]\nstall_timeout_s = 0\n");
  EXPECT_THROW(planned(deaf, {.mtbf_hours = 24}), ConfigError);
}

}  // namespace
}  // namespace trireme
