#include "trainer/tools/plan/calibrate/shared_cores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/base/error.h"
#include "model/base/file.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/time_tree.h"

namespace trireme {
namespace {

SharedCores group(int ranks, double waiting) {
  return {.ranks = ranks,
          .waiting = waiting,
          .meeting = 1e-4,
          .all_reduce = {5e-4, 5e9},
          .reduce_scatter = {4e-4, 4e9},
          .all_gather = {3e-4, 3e9},
          .all_to_all = {2e-4, 2e9},
          .send = {1e-4, 1e9}};
}

DeviceProfile shared_cpu(int ranks) {
  DeviceProfile cpu = find_profile("CPU");
  cpu.cores = 2;
  cpu.network.ranks_per_node = ranks;
  cpu.network.shared_cores = {group(2, 0.01), group(4, 0.02), group(8, 0.03)};
  return cpu;
}

Workload small(const MeshShape& mesh, int zero = 1) {
  EngineSpec spec;
  ModelConfig& model = spec.model;
  model.vocab_size = 128;
  model.hidden_size = 256;
  model.intermediate_size = 1024;
  model.num_hidden_layers = 8;
  model.num_attention_heads = model.num_key_value_heads = 8;
  model.head_dim = 32;
  spec.training.seq_len = 256;
  spec.compute = DType::kF32;
  spec.micro_batches = 4;
  spec.bucket = (25 << 20) / 4;
  spec.parallelism.zero = zero;
  return {.spec = spec, .mesh = mesh};
}

TEST(SharedCores, AGroupsOwnRatesReplaceTheLink) {
  const Network network = shared_cpu(8).network;
  const GroupShape four{4, 1, 8};
  const double bytes = 1e6;
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kAllReduce, four, bytes),
                   5e-4 + 1.5e6 / 5e9);
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kReduceScatter, four, bytes),
                   4e-4 + 0.75e6 / 4e9);
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kAllGather, four, bytes),
                   3e-4 + 0.75e6 / 3e9);
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kAllToAll, four, bytes),
                   2e-4 + 0.75e6 / 2e9);
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kSend, four, bytes), 1e-4 + 1e6 / 1e9);
  EXPECT_EQ(collective_seconds(network, Collective::kAllReduce, {1, 1, 8}, bytes), 0);
}

TEST(SharedCores, GroupsThatLeaveTheNodeUseTheLink) {
  Network network = shared_cpu(8).network, apart = network;
  apart.shared_cores.clear();
  const GroupShape across{4, 8};
  EXPECT_EQ(collective_seconds(network, Collective::kAllGather, across, 1e6),
            collective_seconds(apart, Collective::kAllGather, across, 1e6));
}

TEST(SharedCores, OtherSizesAreThoseOfTheNextLargerGroup) {
  const Network network = shared_cpu(8).network;
  EXPECT_EQ(network.sharing(2)->ranks, 2);
  EXPECT_EQ(network.sharing(3)->ranks, 4);
  EXPECT_EQ(network.sharing(8)->ranks, 8);
  EXPECT_EQ(network.sharing(64)->ranks, 8);
  EXPECT_EQ(find_profile("CPU").network.sharing(2), nullptr);
}

TEST(SharedCores, WaitsGrowWithTheRootOfTheComputation) {
  const Network network = shared_cpu(8).network;
  EXPECT_DOUBLE_EQ(network.waiting_for_last(4, 0.01), 0.02 * 0.1);
  EXPECT_DOUBLE_EQ(network.waiting_for_last(4, 0.04), 2 * network.waiting_for_last(4, 0.01));
  EXPECT_EQ(network.waiting_for_last(4, 0), 0);
  EXPECT_EQ(network.waiting_for_last(1, 0.04), 0);
  EXPECT_EQ(find_profile("CPU").network.waiting_for_last(4, 0.04), 0);
}

TEST(SharedCores, MessagesOfAMicroBatchKeepTheirRanksInStep) {
  EXPECT_EQ(ranks_in_step(small({.pipeline = 2, .data_shard = 4}, 1)), 1);
  EXPECT_EQ(ranks_in_step(small({.pipeline = 2, .data_shard = 4}, 2)), 4);
  EXPECT_EQ(ranks_in_step(small({.data_shard = 2, .tensor = 4}, 0)), 4);
  EXPECT_EQ(ranks_in_step(small({.data_shard = 2, .context = 2, .tensor = 2}, 1)), 4);
  EXPECT_EQ(ranks_in_step(small({.data_shard = 2, .context = 2, .tensor = 2}, 3)), 8);
  EXPECT_EQ(ranks_in_step(small({.data_shard = 4, .context = 1, .expert = 2}, 1)), 2);
}

double step_seconds(const Workload& work, const DeviceProfile& device) {
  return estimate_step(work, device).seconds;
}

// Each message within a micro-batch waits after the computation before it.
TEST(SharedCores, AStepIsLongerByItsWaits) {
  for (const Workload& work :
       {small({.tensor = 8}), small({.context = 8}), small({.data_shard = 8}, 3),
        small({.data_shard = 8}, 0), small({.pipeline = 8}), small({.pipeline = 2, .tensor = 4})}) {
    DeviceProfile cpu = shared_cpu(8);
    const double waiting = step_seconds(work, cpu);
    for (SharedCores& of : cpu.network.shared_cores) of.waiting *= 2;
    const double twice = step_seconds(work, cpu);
    for (SharedCores& of : cpu.network.shared_cores) of.waiting = 0;
    const double without = step_seconds(work, cpu);
    EXPECT_GT(waiting, 1.001 * without) << work.mesh.tensor;
    EXPECT_GT(twice, waiting) << work.mesh.tensor;
  }
}

TEST(SharedCores, WaitsArePartOfTheTreeOfTimes) {
  for (const Workload& work :
       {small({.pipeline = 2, .data_shard = 2, .tensor = 2}), small({.data_shard = 8}, 3)}) {
    const DeviceProfile cpu = shared_cpu(8);
    const StepOps ops = record_step(work.spec, work.mesh, cpu);
    const StepEstimate step = estimate_step(work, ops, cpu);
    EXPECT_NEAR(time_tree(work, ops, cpu, step).amount, step.seconds, 1e-9 * step.seconds);
  }
}

// Data-parallel ranks meet once in a step: after its micro-batches. Its small messages are of the
// losses, of the norm and of the loop.
TEST(SharedCores, DataParallelRanksWaitOncePerStep) {
  const Workload work = small({.data_shard = 8}, 0);
  DeviceProfile cpu = shared_cpu(8);
  const StepEstimate step = estimate_step(work, cpu);
  EXPECT_DOUBLE_EQ(step.parts.waiting,
                   cpu.network.waiting_for_last(8, step.timeline.makespan) + 3 * 1e-4);
  EXPECT_GT(step.parts.waiting, 0);
}

TEST(SharedCores, RanksWithCoresOfTheirOwnDoNotWait) {
  const Workload work = small({.pipeline = 2, .data_shard = 2, .tensor = 2});
  DeviceProfile cpu = find_profile("CPU");
  cpu.network.ranks_per_node = 8;
  const StepEstimate apart = estimate_step(work, cpu);
  EXPECT_EQ(apart.parts.waiting, 0);
  cpu.network.shared_cores = {group(8, 0)};
  SharedCores& all = cpu.network.shared_cores.front();
  all.meeting = 0;
  all.all_reduce = all.reduce_scatter = all.all_gather = all.all_to_all = all.send = {0, 1e18};
  cpu.network.within.latency = 0;
  cpu.network.within.bandwidth = 1e18;
  const StepEstimate shared = estimate_step(work, cpu);
  cpu.network.shared_cores.clear();
  EXPECT_NEAR(shared.seconds, estimate_step(work, cpu).seconds, 1e-6 * shared.seconds);
}

class SharedCoresFile : public testing::Test {
 protected:
  void replace(const std::string& text, const std::string& by) const {
    write_profile(path_, shared_cpu(8));
    std::string all = read_text(path_);
    const std::size_t at = all.find(text);
    ASSERT_NE(at, std::string::npos) << text;
    std::ofstream(path_) << all.replace(at, text.size(), by);
  }
  std::string refusal() const {
    try {
      read_profile(path_);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / "shared_cores.json";
};

TEST_F(SharedCoresFile, ComesBackAsItWasWritten) {
  const DeviceProfile written = shared_cpu(8);
  write_profile(path_, written);
  const DeviceProfile read = read_profile(path_);
  ASSERT_EQ(read.network.shared_cores.size(), 3U);
  for (const Workload& work : {small({.tensor = 8}), small({.context = 4, .tensor = 2}),
                               small({.pipeline = 2, .data_shard = 4}, 3)}) {
    EXPECT_EQ(step_seconds(work, read), step_seconds(work, written));
  }
  EXPECT_EQ(read.band.most, kSharedCoresBand.most);
  write_profile(path_, find_profile("CPU"));
  EXPECT_TRUE(read_profile(path_).network.shared_cores.empty());
  EXPECT_EQ(read_profile(path_).band.most, kMeasuredBand.most);
}

TEST_F(SharedCoresFile, WhatCannotBeMeasuredIsRefused) {
  replace("\"ranks\": 2", "\"ranks\": 1");
  EXPECT_NE(refusal().find("ranks = 1: must be more than 1"), std::string::npos) << refusal();
  replace("\"ranks\": 4", "\"ranks\": 2");
  EXPECT_NE(refusal().find("more than in the group before"), std::string::npos) << refusal();
  replace("\"waiting\": 0.02", "\"waiting\": -0.02");
  EXPECT_NE(refusal().find("of 4 ranks: waiting = -0.02: must be at least 0"), std::string::npos)
      << refusal();
  replace("\"rate\": 3000000000.0", "\"rate\": 0");
  EXPECT_NE(refusal().find("of 2 ranks: all_gather.rate = 0: must be above 0"), std::string::npos)
      << refusal();
  replace("\"latency\": 0.0002", "\"latency\": -1");
  EXPECT_NE(refusal().find("of 2 ranks: all_to_all.latency = -1"), std::string::npos) << refusal();
  replace("\"all_to_all\"", "\"all_to_some\"");
  EXPECT_NE(refusal().find("all_to_"), std::string::npos) << refusal();
}

TEST(SharedCores, TheMeanOfTheMiddleHalfLeavesOutliersOut) {
  EXPECT_DOUBLE_EQ(middle_mean({3}), 3);
  EXPECT_DOUBLE_EQ(middle_mean({1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(middle_mean({100, 1, 2, 4, 3, 0, -50, 9}), 2.5);
  EXPECT_DOUBLE_EQ(middle_mean({5, 4, 3, 2, 1, 1e9}), (2 + 3 + 4 + 5) / 4.0);
}

}  // namespace
}  // namespace trireme
