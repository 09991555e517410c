#include "parallel/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/parallel/data/toy_problem.h"
#include "tests/parallel/optimizer/optimizer_run.h"

namespace trireme::test {
namespace {

constexpr std::pair<int, int> kLayouts[] = {{2, 1}, {4, 1}, {1, 2}, {2, 2}};  // shard x tensor

double learning_rate_of(const std::string& name) {
  if (name == "SGD") return 0.2;
  if (name == "Lion") return 0.005;
  return name == "LARS" ? 1 : 0.02;
}

RuleRun toy(const std::string& name, DType compute = DType::kF32) {
  RuleRun run;
  run.options.name = name;
  run.options.trust_coefficient = 0.01;
  run.options.weight_decay = name == "SGD" ? 0.01 : 0.1;
  run.learning_rate = learning_rate_of(name);
  run.compute = compute;
  run.declare = ToyProblem::declare;
  run.loss = ToyProblem::loss;
  return run;
}

// Rules in which nothing is summed over ranks, or only zeros are added.
bool is_exact(const std::string& name) {
  return name != "LAMB" && name != "LARS";
}

void expect_alike(const Tensors& a, const Tensors& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    SCOPED_TRACE(name);
    const std::vector<double>& other = b.at(name);
    ASSERT_EQ(values.size(), other.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], other[i], relative * (1e-3 + std::fabs(values[i]))) << i;
    }
  }
}

TEST(UpdateRules, weights_values_and_state_do_not_depend_on_the_layout) {
  for (const NamedOptimizer& named : named_optimizers()) {
    const std::string name = named.name;
    for (const bool low : {false, true}) {
      RuleRun run = toy(name, low ? DType::kBf16 : DType::kF32);
      run.steps = 12;
      if (low) run.options.state_dtype = "bfloat16";
      run.options.stochastic_rounding = low;
      const RuleRun::Result alone = run.run();
      for (const auto& [shard, tensor] : kLayouts) {
        SCOPED_TRACE(say(name, low ? " low" : "", ", shard ", shard, ", tensor ", tensor));
        run.shard = shard;
        run.tensor = tensor;
        const RuleRun::Result shared = run.run();
        if (is_exact(name)) {
          EXPECT_TRUE(shared.weights == alone.weights);
          EXPECT_TRUE(shared.values == alone.values);
          EXPECT_TRUE(shared.state == alone.state);
        } else if (!low) {
          // A layer's norm may be off by a rounding of float64, its float32 rate by another.
          expect_alike(shared.weights, alone.weights, 1e-5);
          expect_alike(shared.state, alone.state, 1e-5);
        }
      }
    }
  }
}

TEST(UpdateRules, moments_in_bfloat16_learn_as_well) {
  for (const NamedOptimizer& named : named_optimizers()) {
    const std::string name = named.name;
    SCOPED_TRACE(name);
    RuleRun run = toy(name);
    const RuleRun::Result full = run.run();
    run.options.state_dtype = "bfloat16";
    const RuleRun::Result half = run.run();
    EXPECT_LT(full.losses.back(), 0.7 * full.losses.front());
    EXPECT_NEAR(half.losses.back(), full.losses.back(), 0.02 * full.losses.back());
    EXPECT_TRUE(half.weights != full.weights);
    for (const auto& [held, values] : half.state) {
      for (const double value : values) {
        ASSERT_EQ(value, static_cast<double>(float(Bf16(static_cast<float>(value))))) << held;
      }
    }
  }
}

TEST(UpdateRules, published_weights_are_neighbours_of_the_masters_in_either_direction) {
  for (const NamedOptimizer& named : named_optimizers()) {
    const std::string name = named.name;
    SCOPED_TRACE(name);
    RuleRun run = toy(name, DType::kBf16);
    run.steps = 3;
    run.options.stochastic_rounding = true;
    const RuleRun::Result result = run.run();
    int nearest = 0, others = 0;
    for (const auto& [held, masters] : result.weights) {
      for (std::size_t i = 0; i < masters.size(); ++i) {
        const double value = result.values.at(held)[i];
        ASSERT_LT(std::fabs(value - masters[i]), 0x1p-7 * std::fabs(masters[i])) << held;
        const auto rounded = static_cast<double>(float(Bf16(static_cast<float>(masters[i]))));
        (value == rounded ? nearest : others) += 1;
      }
    }
    EXPECT_GT(nearest, others);
    EXPECT_GT(others, 30);  // of 198, a quarter
  }
}

TEST(UpdateRules, embeddings_decay_if_they_are_to) {
  for (const NamedOptimizer& named : named_optimizers()) {
    SCOPED_TRACE(named.name);
    RuleRun run = toy(named.name);
    run.steps = 1;  // later gradients depend on all weights
    const RuleRun::Result whole = run.run();
    run.options.decay_embeddings = false;
    const RuleRun::Result spared = run.run();
    run.options.weight_decay = 0;
    const RuleRun::Result none = run.run();
    for (const auto& [held, values] : spared.weights) {
      const bool is_embedding = held == "embedding.weight";
      EXPECT_TRUE(values == (is_embedding ? none : whole).weights.at(held)) << held;
      EXPECT_EQ(whole.weights.at(held) != none.weights.at(held), held != "gain") << held;
    }
  }
}

// Not AdamW's kernel, which Muon uses too: there a NaN still reaches the weights.
TEST(UpdateRules, a_nan_scale_skips_the_step) {
  for (const char* const name : {"SGD", "Lion", "LAMB", "LARS"}) {
    for (const bool low : {false, true}) {
      SCOPED_TRACE(say(name, low ? " low" : ""));
      RuleRun run = toy(name, low ? DType::kBf16 : DType::kF32);
      if (low) run.options.state_dtype = "bfloat16";
      run.options.stochastic_rounding = low;
      run.shard = 2;
      run.steps = 4;
      const RuleRun::Result before = run.run();
      run.steps = run.skipped = 5;
      const RuleRun::Result after = run.run();
      EXPECT_TRUE(after.weights == before.weights);
      EXPECT_TRUE(after.values == before.values);
      EXPECT_TRUE(after.state == before.state);
    }
  }
}

// One matrix of several chunks and a vector that does not decay.
RuleRun one_layer(const std::string& name) {
  RuleRun run = toy(name);
  run.steps = 1;
  run.grad_scale = 1;
  run.declare = [](ParamStore& store, Slice holders) {
    store.declare({.name = "layers.0.weight",
                   .shape = {300, 500},
                   .cut = {1, holders},
                   .init_scale = 0.02,
                   .decay = true});
    store.declare({.name = "bias", .shape = {500}, .cut = whole(holders), .init = Init::kOnes});
  };
  run.loss = [](const Tensors& weights, int, Tensors& grads) {
    for (const auto& [held, values] : weights) {
      std::vector<double>& grad = grads[held];
      for (std::size_t i = 0; i < values.size(); ++i) {
        grad.push_back(std::sin(0.1 * static_cast<double>(i)));
      }
    }
    return 0.0;
  };
  return run;
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

TEST(UpdateRules, layer_wise_rates_are_those_of_whole_tensors) {
  for (const auto& [shard, tensor] :
       {std::pair{1, 1}, std::pair{3, 1}, std::pair{2, 2}, std::pair{1, 4}}) {
    SCOPED_TRACE(say("shard ", shard, ", tensor ", tensor));
    RuleRun run = one_layer("LARS");
    run.shard = shard;
    run.tensor = tensor;
    const RuleRun::Result lars = run.run();
    Tensors grads;
    run.loss(lars.initial, 1, grads);
    const std::vector<double>&w = lars.initial.at("layers.0.weight"),
          &g = grads.at("layers.0.weight");
    const double rate = 0.01 * norm(w) / (norm(g) + 0.1 * norm(w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(lars.weights.at("layers.0.weight")[i], w[i] - rate * (g[i] + 0.1 * w[i]), 1e-8);
    }
    // No rate of its own: the learning rate, 1.
    for (std::size_t i = 0; i < 500; ++i) {
      ASSERT_NEAR(lars.weights.at("bias")[i], 1 - grads.at("bias")[i], 1e-6);
    }
    run.options.name = "LAMB";
    run.learning_rate = 0.02;
    const RuleRun::Result lamb = run.run();
    std::vector<double> direction = g;
    for (std::size_t i = 0; i < g.size(); ++i) {
      direction[i] = g[i] / (std::fabs(g[i]) + 1e-8) + 0.1 * w[i];
    }
    const double ratio = norm(w) / norm(direction);
    for (std::size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(lamb.weights.at("layers.0.weight")[i], w[i] - 0.02 * ratio * direction[i], 1e-7);
    }
  }
}

TEST(UpdateRules, workspace_and_update_can_be_planned) {
  for (const NamedOptimizer& named : named_optimizers()) {
    const std::string name = named.name;
    for (const bool low : {false, true}) {
      SCOPED_TRACE(say(name, low ? " low" : ""));
      const auto workspace = [&](bool planned) {
        const auto arena = [&] {
          return planned ? Arena::unbounded() : Arena(std::size_t{1} << 22);
        };
        Arena weights = arena(), masters = arena(), gradients = arena(), state = arena();
        Arena scratch = arena();
        ParamStore store;
        ToyProblem::declare(store, {});
        store.allocate({weights, masters, &gradients}, DType::kBf16);
        Tally tally;
        Stream stream = planned ? Stream(Device{}, tally) : Stream(Device{});
        SelfCommunicator self;
        OptimizerOptions options = toy(name).options;
        if (low) options.state_dtype = "bfloat16";
        options.stochastic_rounding = low;
        const auto rule = make_optimizer(options, {self, self});
        for (ParamShard& shard : store.shards()) {
          std::size_t k = 0;
          for (const Optimizer::State& each : rule->state(shard.param->spec, DType::kF32)) {
            shard.state[k++] = state.take({shard.count()}, each.dtype);
          }
        }
        rule->prepare(store, store.shards(), scratch);
        const Tensor scale = scratch.take({1}, DType::kF32);
        rule->update({stream, scale, 0.1, 1}, store.shards());
        return scratch.used();
      };
      EXPECT_EQ(workspace(true), workspace(false));
    }
  }
}

TEST(UpdateRules, state_is_named_for_a_checkpoint) {
  SelfCommunicator self;
  const auto names = [&](const std::string& rule, const ParamSpec& spec) {
    std::set<std::string> all;
    for (const auto& state : make_optimizer({.name = rule}, {self, self})->state(spec, DType::kF32))
      all.insert(state.name);
    return all;
  };
  const ParamSpec matrix{.name = "layers.3.mlp.up.weight", .shape = {4, 6}};
  const ParamSpec table{.name = "embedding.weight", .shape = {9, 6}};
  EXPECT_EQ(names("Muon", matrix), std::set<std::string>{"muon.momentum"});
  EXPECT_EQ(names("Muon", table), (std::set<std::string>{"adam.m", "adam.v"}));
  EXPECT_EQ(names("AdamW", matrix), (std::set<std::string>{"adam.m", "adam.v"}));
  EXPECT_EQ(names("SGD", matrix), std::set<std::string>{"sgd.momentum"});
}

TEST(UpdateRules, an_unknown_name_is_refused) {
  SelfCommunicator self;
  EXPECT_THROW(make_optimizer({.name = "Adam"}, {self, self}), ConfigError);
}

}  // namespace
}  // namespace trireme::test
