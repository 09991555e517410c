// Whatever the layout, a run is the same run: the loss of every step, every gradient and
// the weights are those of one rank that trains the model alone. Run under mpirun; each
// program of N ranks tries the layouts of N ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ostream>

#include "model/base/philox.h"
#include "tests/parallel/mpi_world.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {
namespace {

constexpr std::int64_t kSeq = 24, kMicroBatch = 2, kMicroBatches = 4;
constexpr int kSteps = 10;

enum class Family { kGpt2, kLlama, kQwen3 };

ModelConfig model_of(Family family, bool tied) {
  ModelConfig m;
  const bool gpt2 = family == Family::kGpt2;
  m.model_type = gpt2 ? "gpt2" : family == Family::kLlama ? "llama" : "qwen3";
  m.norm = gpt2 ? NormKind::kLayerNorm : NormKind::kRmsNorm;
  m.position = gpt2 ? PositionKind::kLearned : PositionKind::kRotary;
  m.activation = gpt2 ? ActivationKind::kGeluTanh : ActivationKind::kSwiGlu;
  m.attention_bias = m.attention_output_bias = m.mlp_bias = gpt2;
  m.qk_norm = family == Family::kQwen3;
  m.tie_word_embeddings = tied;
  m.vocab_size = 61;  // nobody's multiple
  m.hidden_size = 32;
  m.intermediate_size = 48;
  m.num_hidden_layers = 8;
  m.num_attention_heads = 4;
  m.num_key_value_heads = gpt2 ? 4 : 2;  // fewer than tensor = 4
  m.head_dim = 8;
  m.max_position_embeddings = kSeq;
  return m;
}

struct Case {
  Family family;
  bool tied;
  Recompute recompute;
  ParallelismConfig layout;
};

std::string name_of(const Case& c) {
  static const std::map<Recompute, const char*> kRecompute{
      {Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}};
  return say(model_of(c.family, c.tied).model_type, c.tied ? "_tied" : "_untied", "_recompute_",
             kRecompute.at(c.recompute), "_tensor_", c.layout.tensor,
             c.layout.sequence ? "_sequence" : "", "_pipeline_", c.layout.pipeline, "_",
             c.layout.schedule, "_", c.layout.virtual_stages);
}
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c);
}

EngineSpec spec_of(const Case& c) {
  return {.model = model_of(c.family, c.tied),
          .compute = DType::kF32,
          .recompute = c.recompute,
          .seq_len = kSeq,
          .micro_batch = kMicroBatch,
          .micro_batches = kMicroBatches,
          .schedule = c.layout.schedule,
          .virtual_stages = static_cast<int>(c.layout.virtual_stages),
          .sequence = c.layout.sequence,
          // With the usual 1e-8 AdamW's first steps are the gradient's signs, and one that is
          // nothing but roundings moves its weight as far as any other.
          .optimizer = {.epsilon = 1e-3}};
}

// Documents of five to eleven tokens, the mask on; every seventh token has no target.
std::int64_t fill(const TokenBatch& batch, std::uint64_t step, std::int64_t vocab) {
  std::int64_t valid = 0;
  std::int32_t start = 0, length = 0;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const auto words = philox(step, i);
    const auto place = static_cast<std::int32_t>(i % static_cast<std::size_t>(batch.seq_len));
    if (place == 0 || place == start + length) {
      start = place;
      length = 5 + static_cast<std::int32_t>(words[2] % 7);
    }
    batch.ids[i] = static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(vocab));
    const bool counts = words[3] % 7 != 0;
    batch.targets[i] =
        counts ? static_cast<std::int32_t>(words[1] % static_cast<std::uint32_t>(vocab)) : -1;
    valid += counts;
    batch.positions[i] = place - start;
    batch.document_start[i] = start;
  }
  return valid;
}

// An engine with all it stands on.
struct Trainer {
  Trainer(const EngineSpec& spec, const RankGroups& groups)
      : plan(plan_engine(spec, groups, {})),
        arenas(plan.memory, {}),
        engine(spec, groups, stream, arenas) {
    engine.params().initialize(1);
    engine.publish_masters();
  }
  EnginePlan plan;
  Stream stream;
  Arenas arenas;
  Engine engine;
};

// The elements of `whole` that the box holds, by their place in the logical tensor.
template <class Visit>
void for_each_element(const Param& part, const Visit& visit) {
  const Shape logical = part.spec.shape;
  const std::int64_t width = logical[logical.rank() - 1];
  const std::int64_t rows = part.box.extent.rank() == 1 ? 1 : part.box.extent[0];
  const std::int64_t columns = part.box.extent[part.box.extent.rank() - 1];
  const std::int64_t first_row = part.box.extent.rank() == 1 ? 0 : part.box.from[0];
  const std::int64_t first_column = part.box.from[part.box.from.rank() - 1];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      visit(r * columns + c, (first_row + r) * width + first_column + c);
    }
  }
}

const Param& find(ParamStore& store, const std::string& name) {
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name == name) return param;
    }
  }
  throw Error("no parameter " + name);
}

double largest(const Tensor& tensor) {
  double scale = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    scale = std::max(scale, std::fabs(static_cast<double>(tensor.as<float>()[i])));
  }
  return scale;
}

// Relative to the largest gradient of the weight that a parameter is part of: a key's
// bias alone cancels in the softmax, and its gradient is nothing but roundings.
void expect_gradients(ParamStore& actual, ParamStore& expected, double tolerance) {
  for (const Weight& weight : actual.weights()) {
    double scale = 0;
    for (const Param& param : weight.parts) {
      scale = std::max(scale, largest(find(expected, param.spec.name).grad));
    }
    for (const Param& param : weight.parts) {
      if (param.box.extent.count() == 0) continue;
      const float* got = param.grad.as<float>();
      const float* whole = find(expected, param.spec.name).grad.as<float>();
      double worst = 0;
      for_each_element(param, [&](std::int64_t here, std::int64_t there) {
        worst = std::max(
            worst, std::fabs(static_cast<double>(got[here]) - static_cast<double>(whole[there])));
      });
      EXPECT_LE(worst, tolerance * scale) << param.spec.name << ", box from " << param.box.from;
    }
  }
}

class Layout : public testing::TestWithParam<Case> {};

TEST_P(Layout, trains_as_one_rank_alone) {
  const Case& c = GetParam();
  if (world_size(c.layout) != tests::world().size()) {
    GTEST_SKIP() << "a layout of " << world_size(c.layout) << " ranks";
  }
  const RankGroups alone;
  const RankGroups groups(tests::world(), c.layout, model_of(c.family, c.tied));
  Case of_one = c;
  of_one.layout = {};
  Trainer reference(spec_of(of_one), alone), shared(spec_of(c), groups);
  // Without a tensor split every sum has the same terms in the same order.
  const bool exact = c.layout.tensor == 1;
  for (int step = 1; step <= kSteps; ++step) {
    SCOPED_TRACE(say("step ", step));
    const auto key = static_cast<std::uint64_t>(step);
    const std::int64_t valid = fill(reference.engine.batch(), key, 61);
    fill(shared.engine.batch(), key, 61);
    const double expected = reference.engine.gradients(valid);
    const double loss = shared.engine.gradients(valid);
    expect_gradients(shared.engine.params(), reference.engine.params(), exact ? 0 : 1e-5);
    const double expected_norm = reference.engine.update(1e-3, step).grad_norm;
    const double norm = shared.engine.update(1e-3, step).grad_norm;
    if (exact) {
      EXPECT_EQ(loss, expected);
      EXPECT_EQ(norm, expected_norm);
    } else {
      EXPECT_NEAR(loss, expected, 1e-6 * expected);
      EXPECT_NEAR(norm, expected_norm, 1e-5 * expected_norm);
    }
    EXPECT_EQ(shared.arenas.peaks(), shared.plan.memory);
  }
  const double expected = reference.engine.evaluate();
  EXPECT_NEAR(shared.engine.evaluate(), expected, exact ? 0 : 1e-6 * expected);
}

// Every product of the axes up to eight ranks, each with one family, tying and
// recomputation after the other, so that all pairs of choices occur.
std::vector<Case> all_cases() {
  struct Order {
    const char* schedule;
    std::int64_t virtual_stages;
  };
  std::vector<Case> cases;
  constexpr Family kFamilies[] = {Family::kGpt2, Family::kLlama, Family::kQwen3};
  constexpr Recompute kModes[] = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  std::size_t turn = 0;
  for (const std::int64_t tensor : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        for (const Order& order :
             {Order{"1F1B", 1}, Order{"GPipe", 1}, Order{"ZBH1", 1}, Order{"Interleaved1F1B", 2}}) {
          if (sequence && tensor == 1) continue;
          if (pipeline == 1 && std::string(order.schedule) != "1F1B") continue;
          if (tensor * pipeline == 1 || tensor * pipeline > 8) continue;
          ParallelismConfig layout;
          layout.tensor = tensor;
          layout.sequence = sequence;
          layout.pipeline = pipeline;
          layout.schedule = order.schedule;
          layout.virtual_stages = order.virtual_stages;
          for (const Family family : kFamilies) {
            for (const bool tied : {true, false}) {
              cases.push_back({family, tied, kModes[(turn + turn / 6) % 3], layout});
              ++turn;
            }
          }
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Of, Layout, testing::ValuesIn(all_cases()),
                         [](const auto& c) { return name_of(c.param); });

}  // namespace
}  // namespace trireme
