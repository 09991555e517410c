#include "trainer/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/device/tuning.h"
#include "model/stage/model_family.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using test::fill;
using test::float8_spec_of;
using test::kMicroBatches;
using test::spec_of;

using EngineTest = test::OnDevice;
using EnginePlanTest = test::OnDevice;

// A trained engine's losses, step by step, and its weights at the end.
struct Trained {
  std::vector<double> losses, evaluated;
  std::uint64_t first_weights, last_weights;
  bool plan_held;
};

constexpr DropoutRates kDropout{.attention = 0.1, .residual = 0.2, .embedding = 0.1};

// The emulator of a device takes its time.
constexpr int kSteps = test::kDevice.kind == Device::Kind::kCuda ? 2 : 4;

Trained trained(const EngineSpec& spec, int steps = kSteps, double loss_scale = 1) {
  test::TinyEngine whole(spec);
  Engine& engine = whole.engine;
  engine.scale_loss(loss_scale);
  Trained result{{}, {}, whole.weights(), 0, true};
  for (int step = 1; step <= steps; ++step) {
    fill(engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
    result.losses.push_back(train_step(engine, 1e-3, step, 120).loss);
    result.plan_held &= whole.arenas.peaks() == whole.plan.memory;
    result.evaluated.push_back(engine.evaluate());
    result.plan_held &= whole.arenas.peaks() == whole.plan.memory;
  }
  result.last_weights = whole.weights();
  return result;
}

EngineSpec with_counts(EngineSpec spec, const std::vector<std::int64_t>& counts) {
  spec.micro_batches = counts.back();
  spec.fewer_micro_batches.assign(counts.begin(), counts.end() - 1);
  return spec;
}

// After one step of so many micro-batches.
std::uint64_t weights_after(const EngineSpec& spec, std::int64_t micro_batches) {
  test::TinyEngine whole(spec);
  whole.engine.take_micro_batches(micro_batches);
  const data::TokenBatch batch = whole.engine.batch();
  EXPECT_EQ(batch.sequences, micro_batches * spec.training.local_batch_size);
  fill(batch, 1, spec.model.vocab_size);
  const double loss = train_step(whole.engine, 1e-3, 1, 120).loss;
  EXPECT_GT(loss, 0);
  EXPECT_EQ(whole.arenas.peaks(), whole.plan.memory) << micro_batches << " micro-batches";
  return whole.weights();
}

TEST_F(EngineTest, a_shorter_step_computes_what_an_engine_made_for_it_does_and_holds_as_much) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const bool reproducible : {false, true}) {
      EngineSpec spec = spec_of(family);
      spec.job.reproducible = reproducible;
      const EngineSpec ramp = with_counts(spec, {1, 2, 3, 5});
      // Alone a micro-batch adds up the gradients of a tied embedding at once.
      const bool apart = reproducible || !spec.model.tie_word_embeddings;
      for (std::int64_t count = apart ? 1 : 2; count <= 3; ++count) {
        EXPECT_EQ(weights_after(ramp, count), weights_after(with_counts(spec, {count}), count))
            << family << " " << count << " reproducible " << reproducible;
      }
    }
  }
}

TEST_F(EngineTest, steps_of_several_lengths_follow_each_other) {
  const EngineSpec spec = with_counts(spec_of("qwen3"), {1, 2, 4});
  test::TinyEngine ramp(spec), alone(with_counts(spec_of("qwen3"), {2}));
  const auto step = [](Engine& engine, int number) {
    fill(engine.batch(), static_cast<std::uint64_t>(number), 61);
    return train_step(engine, 1e-3, number, 80).loss;
  };
  for (int number = 1; number <= 6; ++number) {
    ramp.engine.take_micro_batches(2);
    EXPECT_EQ(step(ramp.engine, number), step(alone.engine, number));
    EXPECT_EQ(ramp.engine.schedule().micro_batches, 2);
    // What lies between leaves nothing behind.
    const std::uint64_t weights = ramp.weights();
    ramp.engine.take_micro_batches(number % 2 == 0 ? 4 : 1);
    fill(ramp.engine.batch(), 9, 61);
    compute_gradients(ramp.engine, 80);
    ramp.engine.take_micro_batches(4);
    fill(ramp.engine.batch(), 9, 61);
    ramp.engine.evaluate();
    EXPECT_EQ(ramp.weights(), weights);
  }
  EXPECT_EQ(ramp.weights(), alone.weights());
  EXPECT_THROW(ramp.engine.take_micro_batches(3), Error);
}

// A run that begins with its shortest steps is held to the plan as well.
TEST_F(EnginePlanTest, shorter_steps_take_as_much_memory_in_every_schedule) {
  struct Order {
    const char* schedule;
    std::int64_t virtual_stages;
    int zero;
  };
  for (const Order order : {Order{"1F1B", 1, 3}, Order{"GPipe", 1, 2}, Order{"ZBH1", 1, 1},
                            Order{"Interleaved1F1B", 2, 2}}) {
    EngineSpec spec = spec_of("gpt2");
    spec.model.num_hidden_layers = 6;
    spec.parallelism.schedule = order.schedule;
    spec.parallelism.virtual_stages = order.virtual_stages;
    spec.parallelism.zero = order.zero;
    const MeshShape mesh{.pipeline = 3, .data_shard = 2};
    const std::vector<std::int64_t> counts = order.virtual_stages > 1
                                                 ? std::vector<std::int64_t>{3, 6, 12}
                                                 : std::vector<std::int64_t>{1, 2, 5, 9};
    for (int rank = 0; rank < 6; ++rank) {
      Traffic sent, sent_in_full;
      const RankGroups groups(rank, mesh, spec.parallelism, spec.model, test::kDevice,
                              /*reproducible=*/false, sent);
      const StepPlan ramp = plan_step(with_counts(spec, counts), groups, test::kDevice);
      const RankGroups same(rank, mesh, spec.parallelism, spec.model, test::kDevice,
                            /*reproducible=*/false, sent_in_full);
      const StepPlan full = plan_step(with_counts(spec, {counts.back()}), same, test::kDevice);
      EXPECT_EQ(ramp.memory, full.memory) << order.schedule << " rank " << rank;
      EXPECT_EQ(ramp.issued.matmul, full.issued.matmul);
      EXPECT_EQ(ramp.sent, full.sent);
    }
  }
}

TEST_F(EngineTest, takes_exactly_the_memory_it_planned) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const Recompute how : kRecomputeModes) {
      for (const DType compute : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
        EngineSpec spec = spec_of(family);
        spec.activation_checkpoint.mode = how;
        spec.compute = compute;
        EXPECT_TRUE(trained(spec, 1).plan_held) << family << " " << name_of(compute);
      }
    }
  }
}

TEST_F(EngineTest, takes_exactly_the_memory_it_planned_for_every_family) {
  for (const std::string& family : model_types()) {
    for (const Recompute how : kRecomputeModes) {
      EngineSpec spec = spec_of(family.c_str());
      spec.activation_checkpoint.mode = how;
      if (how != Recompute::kSelective) spec.training.dropout = kDropout;
      EXPECT_TRUE(trained(spec, 1).plan_held) << family;
    }
  }
}

TEST_F(EngineTest, drops_in_training_alone) {
  EngineSpec spec = spec_of("gpt2");
  const auto losses = [&](DropoutRates rates) {
    spec.training.dropout = rates;
    test::TinyEngine whole(spec);
    const data::TokenBatch batch = whole.engine.batch();
    fill(batch, 1, spec.model.vocab_size);
    const double evaluated = whole.engine.evaluate();
    return std::pair(train_step(whole.engine, 1e-3, 1, 120).loss, evaluated);
  };
  const auto [plain, evaluated] = losses({});
  for (const DropoutRates rates : {DropoutRates{.attention = 0.5}, DropoutRates{.residual = 0.5},
                                   DropoutRates{.embedding = 0.5}}) {
    const auto [trained, evaluated_too] = losses(rates);
    EXPECT_NE(trained, plain);
    EXPECT_EQ(evaluated_too, evaluated);
  }
}

TEST_F(EngineTest, recomputation_saves_memory_and_changes_no_bit) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = spec_of(family);
    spec.training.dropout = kDropout;
    const Trained plain = trained(spec);
    std::size_t bytes = plan_engine(spec, RankGroups(), test::kDevice).memory.activations();
    for (const Recompute how : {Recompute::kNorms, Recompute::kSelective, Recompute::kFull}) {
      spec.activation_checkpoint.mode = how;
      const Trained again = trained(spec);
      EXPECT_EQ(again.losses, plain.losses);
      EXPECT_EQ(again.last_weights, plain.last_weights);
      EXPECT_LT(plan_engine(spec, RankGroups(), test::kDevice).memory.activations(), bytes);
      bytes = plan_engine(spec, RankGroups(), test::kDevice).memory.activations();
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
  spec.micro_batches = 3;
  const Trained three = trained(spec);
  spec.training.local_batch_size = 6;
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
    spec.activation_checkpoint.mode = spec.model.qk_norm ? Recompute::kFull : Recompute::kSelective;
    const Trained again = trained(spec, 2);
    EXPECT_TRUE(again.plan_held) << family;
    EXPECT_EQ(again.losses, eighth.losses) << family;
    EXPECT_EQ(again.last_weights, eighth.last_weights) << family;
    spec.precision = MatmulPrecision::kNative;
    const Trained half = trained(spec, 2);
    EXPECT_NE(eighth.losses, half.losses) << "nothing was rounded to float8";
    EXPECT_EQ(eighth.first_weights, half.first_weights);
    for (std::size_t i = 0; i < half.losses.size(); ++i) {
      // Three bits of mantissa in the factors of products with 32 terms and more.
      EXPECT_NEAR(eighth.losses[i], half.losses[i], 0.02 * half.losses[i]) << family;
    }
  }
}

TEST_F(EngineTest, float8_codes_of_weights_are_kept_for_a_step_with_the_same_bits) {
  if (const std::string reason = test::why_no_float8(); !reason.empty()) GTEST_SKIP() << reason;
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = float8_spec_of(family);
    const EnginePlan plan = plan_engine(spec, RankGroups(), test::kDevice);
    const Trained kept = trained(spec, 3);
    spec.training.float8_cache_weights = false;
    const Trained made_anew = trained(spec, 3);
    EXPECT_TRUE(kept.plan_held && made_anew.plan_held) << family;
    EXPECT_EQ(kept.losses, made_anew.losses) << family;
    EXPECT_EQ(kept.evaluated, made_anew.evaluated) << family;
    EXPECT_EQ(kept.last_weights, made_anew.last_weights) << family;
    const EnginePlan without = plan_engine(spec, RankGroups(), test::kDevice);
    EXPECT_EQ(without.state.codes, 0U);
    EXPECT_GT(plan.state.codes, 0U);
    EXPECT_GE(plan.memory.weights, without.memory.weights + plan.state.codes);
  }
}

// Codes and scales are kept from one half of a linear layer's work to the other.
TEST_F(EngineTest, float8_has_the_same_bits_where_weight_gradients_are_deferred) {
  if (const std::string reason = test::why_no_float8(); !reason.empty()) GTEST_SKIP() << reason;
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = float8_spec_of(family);
    spec.micro_batches = kMicroBatches;
    const Trained expected = trained(spec, 2);
    spec.parallelism.schedule = "ZBH1";
    for (const Recompute mode : kRecomputeModes) {
      spec.activation_checkpoint.mode = mode;
      SCOPED_TRACE(say(family, " ", kRecomputeNames[static_cast<int>(mode)]));
      const Trained found = trained(spec, 2);
      EXPECT_TRUE(found.plan_held);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.last_weights, expected.last_weights);
    }
  }
}

TEST_F(EngineTest, float16_follows_float32_more_closely) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = spec_of(family);
    const Trained single = trained(spec);
    spec.compute = DType::kF16;
    for (const double loss_scale : {1.0, 0x1p16}) {
      const Trained half = trained(spec, kSteps, loss_scale);
      for (std::size_t i = 0; i < single.losses.size(); ++i) {
        // Three bits more than bfloat16.
        EXPECT_NEAR(half.losses[i], single.losses[i], 0.02 / 8 * single.losses[i]) << family;
      }
    }
  }
}

TEST_F(EnginePlanTest, reproducible_sums_refuse_backwards_in_halves) {
  EngineSpec spec = spec_of("qwen3");
  spec.parallelism.schedule = "ZBH1";
  EXPECT_NO_THROW(plan_engine(spec, RankGroups(), test::kDevice));
  spec.job.reproducible = true;
  EXPECT_THROW(plan_engine(spec, RankGroups(), test::kDevice), ConfigError);
}

TEST_F(EnginePlanTest, counts_products_in_float8_like_others) {
  EngineSpec spec = float8_spec_of("gpt2");
  const Tally eighth = plan_engine(spec, RankGroups(), test::kDevice).issued;
  spec.precision = MatmulPrecision::kNative;
  EXPECT_EQ(eighth.matmul, plan_engine(spec, RankGroups(), test::kDevice).issued.matmul);
}

TEST_F(EngineTest, a_loss_scale_changes_no_bit_where_nothing_leaves_the_range) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const DType compute : {DType::kF32, DType::kF64, DType::kBf16}) {
      EngineSpec spec = spec_of(family);
      spec.compute = compute;
      const Trained plain = trained(spec);
      for (const double loss_scale : {0x1p-8, 0x1p16}) {
        const Trained scaled = trained(spec, kSteps, loss_scale);
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
  const Engine::StepResult failed = train_step(whole.engine, 1e-3, 1, 120);
  EXPECT_FALSE(failed.applied);
  EXPECT_TRUE(std::isfinite(failed.loss) && !std::isfinite(failed.grad_norm));
  EXPECT_EQ(whole.weights(), before);
  for (test::TinyEngine* each : {&whole, &other}) each->engine.scale_loss(0x1p10);
  const Engine::StepResult again = train_step(whole.engine, 1e-3, 1, 120);
  EXPECT_TRUE(again.applied);
  EXPECT_EQ(again.loss, failed.loss);
  EXPECT_EQ(again.grad_norm, train_step(other.engine, 1e-3, 1, 120).grad_norm);
  EXPECT_EQ(whole.weights(), other.weights());
}

TEST_F(EnginePlanTest, counts_the_products_of_a_step) {
  const EngineSpec spec = spec_of("qwen3");
  const EnginePlan plan = plan_engine(spec, RankGroups(), test::kDevice);
  const ModelConfig& m = spec.model;
  const auto tokens = static_cast<double>(spec.training.seq_len * spec.training.local_batch_size *
                                          spec.micro_batches);
  const std::int64_t block = m.hidden_size * (4 + 2 + 2) * m.head_dim +
                             m.head_dim * 4 * m.hidden_size +
                             3 * m.hidden_size * m.intermediate_size;
  const std::int64_t tile = tuning_of(test::kDevice).vocab_tile;
  const std::int64_t vocab = (m.vocab_size + tile - 1) / tile * tile;
  const double weights = static_cast<double>(m.num_hidden_layers * block + vocab * m.hidden_size);
  EXPECT_EQ(plan.issued.matmul, 6 * tokens * weights);
  EXPECT_EQ(plan.useful.matmul, plan.issued.matmul);
  EXPECT_EQ(plan.issued.attention_full, 12.0 * 3 * 4 * 8 * 20 * tokens);
  EXPECT_EQ(plan.issued.attention_causal, plan.issued.attention_full / 2);
}

// Muon multiplies matrices too, for no token.
TEST_F(EnginePlanTest, counts_no_products_of_the_optimizer) {
  EngineSpec spec = spec_of("qwen3");
  const EnginePlan adamw = plan_engine(spec, RankGroups(), test::kDevice);
  spec.optimizer.name = "Muon";
  EXPECT_EQ(plan_engine(spec, RankGroups(), test::kDevice).issued.matmul, adamw.issued.matmul);
}

TEST_F(EnginePlanTest, full_recomputation_issues_more_than_is_useful) {
  EngineSpec spec = spec_of("qwen3");
  const EnginePlan plain = plan_engine(spec, RankGroups(), test::kDevice);
  spec.activation_checkpoint.mode = Recompute::kFull;
  const EnginePlan full = plan_engine(spec, RankGroups(), test::kDevice);
  EXPECT_EQ(full.useful.matmul, plain.useful.matmul);
  EXPECT_GT(full.issued.matmul, full.useful.matmul);
}

}  // namespace
}  // namespace trireme
