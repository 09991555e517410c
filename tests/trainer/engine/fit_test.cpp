#include "trainer/engine/fit.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/engine/tiny_engine.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

using test::spec_of;

using FitTest = test::OnDevice;

// What a run asks at its start, so that the classes `trireme plan` prints are those it takes.
TEST_F(FitTest, a_plan_that_was_not_foretold_is_named_class_by_class) {
  RunConfig config;
  config.model = spec_of("qwen3").model;
  config.training.seq_len = 16;
  config.training.global_batch_size = 6;
  config.training.rampup_batch_size = {{1, 2}, {5, 6}};
  config.training.steps = 9;
  config.parallelism.data_shard = 1;
  MemoryPlan plan = plan_engine(engine_spec(config), RankGroups(), test::kDevice).memory;
  EXPECT_NO_THROW(require_foretold(config, RankGroups(), test::kDevice, plan));
  plan.gradients += 4;
  try {
    require_foretold(config, RankGroups(), test::kDevice, plan);
    FAIL() << "it was taken for the same";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("different memory for rank 0: gradients "), std::string::npos) << what;
    EXPECT_EQ(what.find("weights"), std::string::npos) << what;
  }
}

TEST_F(FitTest, a_plan_that_is_too_large_is_refused_with_changes_that_fit) {
  RunConfig config;
  config.model = spec_of("qwen3").model;
  config.training.seq_len = 512;
  config.training.local_batch_size = 8;
  config.training.global_batch_size = 8;
  config.training.steps = 1;
  const MemoryPlan plan = plan_engine(engine_spec(config), RankGroups(), test::kDevice).memory;
  if (!test::kDevice.is_cuda()) {  // a snapshot lies in the same memory
    const std::size_t with_snapshot = plan.total() + snapshot_bytes(plan);
    EXPECT_EQ(snapshot_bytes(plan), plan.weights + plan.optimizer);  // float32: its own masters
    EXPECT_NO_THROW(require_fit(config, test::kDevice, plan, with_snapshot));
    EXPECT_THROW(require_fit(config, test::kDevice, plan, with_snapshot - 1), EnvironmentError);
    const auto cheapest = savings(config, 0, test::kDevice, with_snapshot - 1);
    ASSERT_FALSE(cheapest.empty());
    EXPECT_EQ(cheapest[0].change, "checkpoint.async = false");
    EXPECT_EQ(cheapest[0].bytes, plan.total());
  }
  config.checkpoint.async = false;
  const std::size_t needed = plan.total();
  const auto found = savings(config, 0, test::kDevice, needed - 1);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(found.size(), 3u);
  for (const Saving& saving : found) EXPECT_LT(saving.bytes, needed);
  EXPECT_NO_THROW(require_fit(config, test::kDevice, plan, needed));
  EXPECT_THROW(require_fit(config, test::kDevice, plan, needed - 1), EnvironmentError);
  EXPECT_TRUE(savings(config, 0, test::kDevice, 1000).empty());
}

TEST_F(FitTest, offloading_is_proposed_for_a_gpu_alone) {
  RunConfig config;
  config.model = spec_of("qwen3").model;
  config.training = {.seq_len = 16,
                     .global_batch_size = 1,
                     .rampup_batch_size = {},
                     .steps = 1,
                     .dtype = "bfloat16"};
  config.activation_checkpoint.mode = Recompute::kFull;
  config.checkpoint.async = false;
  const auto found = [&](Device device) {
    const std::size_t needed =
        plan_engine(engine_spec(config), RankGroups(), device).memory.total();
    std::string text;
    for (const Saving& saving : savings(config, 0, device, needed - 1)) {
      text += saving.change + "; ";
    }
    return text;
  };
  EXPECT_EQ(found({}), "");
  EXPECT_NE(found({Device::Kind::kCuda, 0}).find("optimizer.offload = true"), std::string::npos);
}

TEST_F(FitTest, offloading_is_refused_on_the_cpu_and_where_the_host_has_too_little) {
  constexpr Device kGpu{Device::Kind::kCuda, 0};
  RunConfig config;
  MemoryPlan plan;
  // On a GPU whose state stays there, the copy that checkpoints are made from, and a snapshot of
  // it.
  plan = {.weights = 2, .masters = 4, .optimizer = 8};
  EXPECT_NO_THROW(require_host_memory(config, kGpu, plan, 24));
  EXPECT_THROW(require_host_memory(config, kGpu, plan, 23), EnvironmentError);
  plan = {};
  plan.host = {.masters = 4, .optimizer = 8};
  EXPECT_NO_THROW(require_host_memory(config, {}, plan, 0));
  config.optimizer.offload = true;
  EXPECT_NO_THROW(require_host_memory(config, kGpu, plan, 24));  // a snapshot beside it
  EXPECT_THROW(require_host_memory(config, kGpu, plan, 23), EnvironmentError);
  config.checkpoint.async = false;
  EXPECT_NO_THROW(require_host_memory(config, kGpu, plan, 12));
  EXPECT_THROW(require_host_memory(config, kGpu, plan, 11), EnvironmentError);
  EXPECT_THROW(require_host_memory(config, {}, plan, 100), ConfigError);
}

// What cuBLASLt, cuDNN and NCCL take later is not promised to the run.
TEST_F(FitTest, a_reserve_of_the_device_stays_free) {
  EXPECT_EQ(device_reserve(std::size_t{80} << 30), std::size_t{2} << 30);
  EXPECT_EQ(device_reserve(std::size_t{8} << 30), std::size_t{1} << 29);
  if (!test::kDevice.is_cuda()) return;
  const DeviceProperties properties = properties_of(test::kDevice);
  EXPECT_LE(available_memory(test::kDevice, 1),
            properties.free_bytes - device_reserve(properties.memory_bytes));
}

}  // namespace
}  // namespace trireme
