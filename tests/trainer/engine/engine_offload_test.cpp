// What is offloaded to the host changes no bit and no more than where things lie.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using EngineOnCuda = test::OnDevice;

struct OffloadTrained {
  std::vector<double> losses, norms, evaluated;
  std::uint64_t weights;
  std::vector<float> average;  // empty: none
  bool operator==(const OffloadTrained&) const = default;
};

OffloadTrained trained_offloaded(test::TinyEngine& on, std::int64_t steps = 2) {
  OffloadTrained result;
  for (std::int64_t step = 1; step <= steps; ++step) {
    test::fill(on.engine.batch(), static_cast<std::uint64_t>(step),
               on.engine.spec().model.vocab_size);
    const Engine::StepResult done = train_step(on.engine, 1e-2, step, 120);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.grad_norm);
    EXPECT_EQ(on.arenas.peaks(), on.plan.memory);
    result.evaluated.push_back(on.engine.evaluate());
    EXPECT_EQ(on.arenas.peaks(), on.plan.memory);
  }
  result.weights = on.weights();
  if (on.engine.spec().training.ema == 0) return result;
  const HostState& host = on.engine.host_state();
  host.download(on.stream);
  const Tensor average = host.state(on.engine.model().optimizer().states().size() - 1).host();
  result.average.assign(average.as<float>(), average.as<float>() + average.count());
  return result;
}

TEST_F(EngineOnCuda, an_offloaded_optimizer_computes_the_same_bits) {
  for (const char* rule : {"AdamW", "LAMB", "Muon"}) {
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(say(rule, " in ", name_of(compute)));
      EngineSpec spec = test::spec_of(compute == DType::kF32 ? "gpt2" : "qwen3");
      spec.compute = compute;
      spec.micro_batches = 1;
      spec.optimizer.name = rule;
      spec.training.ema = 0.9;
      test::TinyEngine here(spec);
      spec.optimizer.offload = true;
      test::TinyEngine away(spec);
      EXPECT_EQ(trained_offloaded(away), trained_offloaded(here));

      const MemoryPlan& with = away.plan.memory;
      const MemoryPlan& without = here.plan.memory;
      EXPECT_EQ(with.masters + with.optimizer, 0u);
      EXPECT_EQ(with.host_total(), without.masters + without.optimizer);
      EXPECT_LT(with.total(), without.total());
      // The state is where a checkpoint reads it.
      const Tensor state = away.engine.model().optimizer().states().front().flat;
      EXPECT_EQ(away.engine.host_state().state(0).host().data, state.data);
    }
  }
}

EngineSpec deep(const char* family, Recompute how, const char* schedule) {
  EngineSpec spec = test::spec_of(family);
  spec.model.num_hidden_layers = 5;
  spec.micro_batches = 3;
  spec.activation_checkpoint.mode = how;
  spec.parallelism.schedule = schedule;
  return spec;
}

TEST_F(EngineOnCuda, offloaded_activations_compute_the_same_bits) {
  struct Case {
    const char* family;
    Recompute how;
    // With one micro-batch in flight, with three, and with a backward in halves.
    const char* schedule;
  };
  for (const Case& c :
       {Case{"gpt2", Recompute::kNone, "1F1B"}, Case{"qwen3", Recompute::kNone, "GPipe"},
        Case{"qwen3", Recompute::kSelective, "ZBH1"}, Case{"gpt2", Recompute::kSelective, "GPipe"},
        Case{"gpt2", Recompute::kFull, "ZBH1"}, Case{"qwen3", Recompute::kFull, "1F1B"}}) {
    SCOPED_TRACE(say(c.family, ", ", c.schedule, ", recompute ", static_cast<int>(c.how)));
    EngineSpec spec = deep(c.family, c.how, c.schedule);
    test::TinyEngine here(spec);
    spec.activation_checkpoint.offload = true;
    test::TinyEngine away(spec);
    EXPECT_EQ(trained_offloaded(away), trained_offloaded(here));
    EXPECT_LT(away.plan.memory.total(), here.plan.memory.total());
    EXPECT_GT(away.plan.memory.in_flight.front().on_host, 0u);
  }
}

TEST_F(EngineOnCuda, deeper_models_take_no_more_device_memory_for_offloaded_activations) {
  const auto planned = [](std::int64_t layers) {
    EngineSpec spec = deep("qwen3", Recompute::kNone, "GPipe");
    spec.model.num_hidden_layers = layers;
    spec.activation_checkpoint.offload = true;
    return plan_engine(spec, RankGroups(), test::kDevice).memory;
  };
  const MemoryPlan five = planned(5), nine = planned(9);
  EXPECT_EQ(nine.activations(), five.activations());
  EXPECT_EQ(nine.window, five.window);
  EXPECT_EQ(nine.in_window, 3u);
  EXPECT_GT(nine.in_flight.front().on_host, five.in_flight.front().on_host);
}

TEST_F(EngineOnCuda, what_was_offloaded_is_gone_on_with_where_it_is_not_and_the_other_way) {
  EngineSpec spec = test::spec_of("qwen3");
  spec.compute = DType::kBf16;
  for (const bool first_away : {true, false}) {
    spec.optimizer.offload = first_away;
    test::TinyEngine first(spec);
    trained_offloaded(first);
    spec.optimizer.offload = !first_away;
    test::TinyEngine second(spec);
    const HostState &from = first.engine.host_state(), &to = second.engine.host_state();
    from.download(first.stream);
    const auto carry = [](const HostMirror& into, const HostMirror& out_of) {
      std::memcpy(into.host().data, out_of.host().data, out_of.host().bytes());
    };
    carry(to.masters(), from.masters());
    for (std::size_t i = 0; i < first.engine.model().optimizer().states().size(); ++i) {
      carry(to.state(i), from.state(i));
    }
    to.upload(second.stream);
    second.engine.model().publish_masters(second.engine.stream(), 2);
    for (test::TinyEngine* on : {&first, &second}) {
      test::fill(on->engine.batch(), 3, spec.model.vocab_size);
    }
    EXPECT_EQ(train_step(second.engine, 1e-2, 3, 120).loss,
              train_step(first.engine, 1e-2, 3, 120).loss);
    EXPECT_EQ(second.weights(), first.weights());
  }
}

}  // namespace
}  // namespace trireme
