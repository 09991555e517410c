#include "trainer/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/device/cpu/threads.h"
#include "tests/trainer/engine/tiny_engine.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/inference.h"

namespace trireme {
namespace {

using test::fill;
using test::float8_spec_of;
using test::spec_of;

using EngineTest = test::OnDevice;
using EnginePlanTest = test::OnDevice;
using FitTest = test::OnDevice;
using InferenceTest = test::OnDevice;

// A trained engine's losses, step by step, and its weights at the end.
struct Trained {
  std::vector<double> losses;
  std::uint64_t first_weights, last_weights;
  bool plan_held;
};

Trained trained(const EngineSpec& spec, int steps = 4, double loss_scale = 1) {
  test::TinyEngine whole(spec);
  Engine& engine = whole.engine;
  engine.scale_loss(loss_scale);
  Trained result{{}, whole.weights(), 0, true};
  for (int step = 1; step <= steps; ++step) {
    fill(engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
    result.losses.push_back(engine.train(1e-3, step, 120).loss);
    result.plan_held &= whole.arenas.peaks() == whole.plan.memory;
    engine.evaluate();
    result.plan_held &= whole.arenas.peaks() == whole.plan.memory;
  }
  result.last_weights = whole.weights();
  return result;
}

TEST_F(EngineTest, takes_exactly_the_memory_it_planned) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const Recompute how : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const DType compute : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
        EngineSpec spec = spec_of(family);
        spec.recompute = how;
        spec.compute = compute;
        EXPECT_TRUE(trained(spec, 1).plan_held) << family << " " << name_of(compute);
      }
    }
  }
}

TEST_F(EngineTest, recomputation_saves_memory_and_changes_no_bit) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = spec_of(family);
    const Trained plain = trained(spec);
    std::size_t bytes = plan_engine(spec, RankGroups(), test::kDevice).memory.activations;
    for (const Recompute how : {Recompute::kSelective, Recompute::kFull}) {
      spec.recompute = how;
      const Trained again = trained(spec);
      EXPECT_EQ(again.losses, plain.losses);
      EXPECT_EQ(again.last_weights, plain.last_weights);
      EXPECT_LT(plan_engine(spec, RankGroups(), test::kDevice).memory.activations, bytes);
      bytes = plan_engine(spec, RankGroups(), test::kDevice).memory.activations;
    }
  }
}

TEST_F(EngineTest, initial_weights_are_equal_in_every_dtype_and_thread_count) {
  EngineSpec spec = spec_of("qwen3");
  const std::uint64_t expected = trained(spec, 0).first_weights;
  for (int count = 1; count <= 3; ++count) {
    cpu::use_threads(count);
    for (const DType compute : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
      spec.compute = compute;
      EXPECT_EQ(trained(spec, 0).first_weights, expected);
    }
  }
  cpu::use_threads(0);
}

TEST_F(EngineTest, the_same_run_twice_has_the_same_bits) {
  const EngineSpec spec = spec_of("qwen3");
  const Trained first = trained(spec);
  const Trained second = trained(spec);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.last_weights, second.last_weights);
}

TEST_F(EngineTest, accumulation_computes_what_one_large_micro_batch_does) {
  EngineSpec spec = spec_of("gpt2");
  const Trained three = trained(spec);
  spec.micro_batch = 6;
  spec.micro_batches = 1;
  const Trained one = trained(spec);
  // Sums of gradients in another order: a few float32 roundings.
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], three.losses[i], 1e-5 * one.losses[i]);
  }
}

TEST_F(EngineTest, bfloat16_follows_float32) {
  EngineSpec spec = spec_of("qwen3");
  const Trained single = trained(spec);
  spec.compute = DType::kBf16;
  const Trained half = trained(spec);
  for (std::size_t i = 0; i < single.losses.size(); ++i) {
    // Eight bits of mantissa in the logits of a loss near ln 61.
    EXPECT_NEAR(half.losses[i], single.losses[i], 0.02 * single.losses[i]);
  }
}

TEST_F(EngineTest, float8_follows_bfloat16_with_the_memory_planned_and_recomputes_its_bits) {
  if (const std::string reason = test::why_no_float8(); !reason.empty()) GTEST_SKIP() << reason;
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = float8_spec_of(family);
    const Trained eighth = trained(spec, 2);
    EXPECT_TRUE(eighth.plan_held) << family;
    spec.recompute = spec.model.qk_norm ? Recompute::kFull : Recompute::kSelective;
    const Trained again = trained(spec, 2);
    EXPECT_TRUE(again.plan_held) << family;
    EXPECT_EQ(again.losses, eighth.losses) << family;
    EXPECT_EQ(again.last_weights, eighth.last_weights) << family;
    spec.factors = Factors::kAsStored;
    const Trained half = trained(spec, 2);
    EXPECT_NE(eighth.losses, half.losses) << "nothing was rounded to float8";
    EXPECT_EQ(eighth.first_weights, half.first_weights);
    for (std::size_t i = 0; i < half.losses.size(); ++i) {
      // Three bits of mantissa in the factors of products with 32 terms and more.
      EXPECT_NEAR(eighth.losses[i], half.losses[i], 0.02 * half.losses[i]) << family;
    }
  }
}

TEST_F(EngineTest, float16_follows_float32_more_closely) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = spec_of(family);
    const Trained single = trained(spec);
    spec.compute = DType::kF16;
    for (const double loss_scale : {1.0, 0x1p16}) {
      const Trained half = trained(spec, 4, loss_scale);
      for (std::size_t i = 0; i < single.losses.size(); ++i) {
        // Three bits more than bfloat16.
        EXPECT_NEAR(half.losses[i], single.losses[i], 0.02 / 8 * single.losses[i]) << family;
      }
    }
  }
}

TEST_F(EnginePlanTest, reproducible_sums_refuse_backwards_in_halves) {
  EngineSpec spec = spec_of("qwen3");
  spec.schedule = "ZBH1";
  EXPECT_NO_THROW(plan_engine(spec, RankGroups(), test::kDevice));
  spec.reproducible = true;
  EXPECT_THROW(plan_engine(spec, RankGroups(), test::kDevice), ConfigError);
}

TEST_F(EnginePlanTest, counts_products_in_float8_like_others) {
  EngineSpec spec = float8_spec_of("gpt2");
  const Tally eighth = plan_engine(spec, RankGroups(), test::kDevice).issued;
  spec.factors = Factors::kAsStored;
  EXPECT_EQ(eighth.matmul, plan_engine(spec, RankGroups(), test::kDevice).issued.matmul);
}

TEST_F(EngineTest, a_loss_scale_changes_no_bit_where_nothing_leaves_the_range) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const DType compute : {DType::kF32, DType::kF64, DType::kBf16}) {
      EngineSpec spec = spec_of(family);
      spec.compute = compute;
      const Trained plain = trained(spec);
      for (const double loss_scale : {0x1p-8, 0x1p16}) {
        const Trained scaled = trained(spec, 4, loss_scale);
        EXPECT_EQ(scaled.losses, plain.losses) << family << " " << name_of(compute);
        EXPECT_EQ(scaled.last_weights, plain.last_weights) << family << " " << name_of(compute);
      }
    }
  }
}

TEST_F(EngineTest, a_step_whose_gradients_overflow_changes_nothing_and_can_be_tried_again) {
  EngineSpec spec = spec_of("qwen3");
  spec.compute = DType::kF16;
  test::TinyEngine whole(spec), other(spec);
  for (test::TinyEngine* each : {&whole, &other}) fill(each->engine.batch(), 1, 61);
  const std::uint64_t before = whole.weights();
  whole.engine.scale_loss(0x1p40);  // a float16's largest is below 2^16
  const Engine::StepResult failed = whole.engine.train(1e-3, 1, 120);
  EXPECT_FALSE(failed.applied);
  EXPECT_TRUE(std::isfinite(failed.loss) && !std::isfinite(failed.grad_norm));
  EXPECT_EQ(whole.weights(), before);
  for (test::TinyEngine* each : {&whole, &other}) each->engine.scale_loss(0x1p10);
  const Engine::StepResult again = whole.engine.train(1e-3, 1, 120);
  EXPECT_TRUE(again.applied);
  EXPECT_EQ(again.loss, failed.loss);
  EXPECT_EQ(again.grad_norm, other.engine.train(1e-3, 1, 120).grad_norm);
  EXPECT_EQ(whole.weights(), other.weights());
}

TEST_F(EnginePlanTest, counts_the_products_of_a_step) {
  const EngineSpec spec = spec_of("qwen3");
  const EnginePlan plan = plan_engine(spec, RankGroups(), test::kDevice);
  const ModelConfig& m = spec.model;
  const double tokens = 120;
  const std::int64_t block = m.hidden_size * (4 + 2 + 2) * m.head_dim +
                             m.head_dim * 4 * m.hidden_size +
                             3 * m.hidden_size * m.intermediate_size;
  const double weights =
      static_cast<double>(m.num_hidden_layers * block + m.vocab_size * m.hidden_size);
  EXPECT_EQ(plan.issued.matmul, 6 * tokens * weights);
  EXPECT_EQ(plan.useful.matmul, plan.issued.matmul);
  EXPECT_EQ(plan.issued.attention_full, 12.0 * 3 * 4 * 8 * 20 * tokens);
  EXPECT_EQ(plan.issued.attention_causal, plan.issued.attention_full / 2);
}

TEST_F(EnginePlanTest, full_recomputation_issues_more_than_is_useful) {
  EngineSpec spec = spec_of("qwen3");
  const EnginePlan plain = plan_engine(spec, RankGroups(), test::kDevice);
  spec.recompute = Recompute::kFull;
  const EnginePlan full = plan_engine(spec, RankGroups(), test::kDevice);
  EXPECT_EQ(full.useful.matmul, plain.useful.matmul);
  EXPECT_GT(full.issued.matmul, full.useful.matmul);
}

TEST_F(FitTest, a_plan_that_is_too_large_is_refused_with_changes_that_fit) {
  RunConfig config;
  config.model = spec_of("qwen3").model;
  config.training.seq_len = 512;
  config.training.local_batch_size = 8;
  config.training.global_batch_size = 8;
  config.training.steps = 1;
  const EngineSpec spec{.model = config.model,
                        .compute = DType::kF32,
                        .recompute = Recompute::kNone,
                        .seq_len = 512,
                        .micro_batch = 8,
                        .micro_batches = 1,
                        .optimizer = {}};
  const MemoryPlan plan = plan_engine(spec, RankGroups(), test::kDevice).memory;
  if (!test::kDevice.is_cuda()) {  // a snapshot lies in the same memory
    const std::size_t with_snapshot = plan.total() + snapshot_bytes(plan);
    EXPECT_EQ(snapshot_bytes(plan), plan.weights + plan.optimizer);  // float32: its own masters
    EXPECT_NO_THROW(require_fit(config, RankGroups(), test::kDevice, plan, with_snapshot));
    EXPECT_THROW(require_fit(config, RankGroups(), test::kDevice, plan, with_snapshot - 1),
                 EnvironmentError);
    const auto cheapest = savings(config, RankGroups(), test::kDevice, with_snapshot - 1);
    ASSERT_FALSE(cheapest.empty());
    EXPECT_EQ(cheapest[0].change, "checkpoint.async = false");
    EXPECT_EQ(cheapest[0].bytes, plan.total());
  }
  config.checkpoint.async = false;
  const std::size_t needed = plan.total();
  const auto found = savings(config, RankGroups(), test::kDevice, needed - 1);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(found.size(), 3u);
  for (const Saving& saving : found) EXPECT_LT(saving.bytes, needed);
  EXPECT_NO_THROW(require_fit(config, RankGroups(), test::kDevice, plan, needed));
  EXPECT_THROW(require_fit(config, RankGroups(), test::kDevice, plan, needed - 1),
               EnvironmentError);
  EXPECT_TRUE(savings(config, RankGroups(), test::kDevice, 1000).empty());
}

TEST_F(FitTest, offloading_is_proposed_for_a_gpu_alone) {
  RunConfig config;
  config.model = spec_of("qwen3").model;
  config.training = {.seq_len = 16, .global_batch_size = 1, .steps = 1, .dtype = "bfloat16"};
  config.activation_checkpoint.mode = "full";
  config.checkpoint.async = false;
  const auto found = [&](Device device) {
    const std::size_t needed =
        plan_engine(engine_spec(config), RankGroups(), device).memory.total();
    std::string text;
    for (const Saving& saving : savings(config, RankGroups(), device, needed - 1)) {
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

TEST_F(InferenceTest, evaluates_and_decodes_what_the_engine_computes) {
  const EngineSpec spec = spec_of("qwen3");
  test::TinyEngine whole(spec);
  Engine& engine = whole.engine;
  Inference model({.model = spec.model,
                   .device = test::kDevice,
                   .compute = DType::kF32,
                   .seq_len = 20,
                   .micro_batch = 6,
                   .prompt = 20});
  model.params().initialize(1);
  fill(engine.batch(), 5, spec.model.vocab_size);
  fill(model.batch(), 5, spec.model.vocab_size);
  EXPECT_NEAR(model.evaluate(), engine.evaluate(), 1e-5 * engine.evaluate());

  // A prompt at once, and token by token through the cache.
  const std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9, 2, 6};
  const std::vector<float> at_once = model.next_logits(ids);
  Inference one({.model = spec.model,
                 .device = test::kDevice,
                 .compute = DType::kF32,
                 .seq_len = 20,
                 .micro_batch = 0,
                 .prompt = 1});
  one.params().initialize(1);
  std::vector<float> last;
  for (const std::int32_t id : ids) last = one.next_logits({&id, 1});
  ASSERT_EQ(last.size(), at_once.size());
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(last[i], at_once[i], 1e-5);
}

}  // namespace
}  // namespace trireme
