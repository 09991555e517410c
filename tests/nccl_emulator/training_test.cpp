// Training steps of the product's engine on emulated GPUs, beside one rank on the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <vector>

#include "model/base/philox.h"
#include "parallel/comm/gpu_environment.h"
#include "tests/nccl_emulator/emulated_job.h"
#include "tests/tiny_model.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

using test::EmulatedJob;
using test::EmulatedRank;

constexpr std::int64_t kSeq = 8, kVocab = 61, kMicroBatches = 4;
constexpr int kSteps = 2;

struct Case {
  const char* family;
  ParallelismConfig layout;
  bool reproducible = false;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.family << " pipeline " << c.layout.pipeline << " data " << c.layout.data_replicate
             << " x " << c.layout.data_shard << " tensor " << c.layout.tensor << " zero "
             << c.layout.zero << (c.reproducible ? " reproducible" : "");
}

EngineSpec spec_of(const Case& c) {
  EngineSpec spec;
  spec.model = test::tiny_model(c.family, {.vocab = kVocab, .layers = 4, .positions = kSeq});
  if (spec.model.num_experts > 0) spec.model.num_experts = 4;
  spec.training.seq_len = kSeq;
  spec.training.local_batch_size = 1;
  spec.parallelism = c.layout;
  spec.job.reproducible = c.reproducible;
  spec.optimizer.eps = 1e-3;  // the first steps are not the gradients' signs alone
  spec.micro_batches = kMicroBatches / data_ranks(c.layout);
  return spec;
}

void fill(Engine& engine, std::uint64_t step) {
  const data::TokenBatch batch = engine.batch();
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(
        engine.micro_batches().number(engine.data_rank(), static_cast<std::int64_t>(i) / kSeq));
    const auto words = philox(step, number * kSeq + i % kSeq);
    batch.ids[i] = static_cast<std::int32_t>(words[0] % kVocab);
    batch.targets[i] = static_cast<std::int32_t>(words[1] % kVocab);
    batch.positions[i] = static_cast<std::int32_t>(i % kSeq);
    batch.document_start[i] = 0;
  }
}

// Loss and norm of every step, and the loss of an evaluation.
std::vector<double> train(const EngineSpec& spec, const RankGroups& groups, Device device,
                          int steps) {
  const EnginePlan plan = plan_engine(spec, groups, device);
  Stream stream(device);
  Arenas arenas(plan.memory, device);
  Engine engine(spec, groups, stream, arenas);
  engine.model().params().initialize(1);
  engine.model().publish_masters(stream);
  std::vector<double> course;
  for (int step = 1; step <= steps; ++step) {
    fill(engine, static_cast<std::uint64_t>(step));
    const Engine::StepResult result = train_step(engine, 1e-3, step, kMicroBatches * kSeq);
    course.insert(course.end(), {result.loss, result.grad_norm});
  }
  course.push_back(engine.evaluate());
  engine.model().finish_publishing();
  stream.synchronize();
  EXPECT_EQ(arenas.peaks(), plan.memory);
  return course;
}

ParallelismConfig layout(std::int64_t pipeline, std::int64_t data, std::int64_t tensor,
                         std::int64_t zero = 1) {
  ParallelismConfig layout;
  layout.pipeline = pipeline;
  layout.data_shard = data;
  layout.tensor = tensor;
  layout.zero = zero;
  return layout;
}

ParallelismConfig with_experts(ParallelismConfig layout, std::int64_t expert) {
  layout.expert = expert;
  return layout;
}

ParallelismConfig with_context(ParallelismConfig layout, std::int64_t context, ContextMethod method,
                               std::int64_t ulysses = 1) {
  layout.context = context;
  layout.context_method = method;
  layout.context_ulysses = ulysses;
  return layout;
}

// The courses of the layout's ranks on emulated GPUs.
std::vector<std::vector<double>> train_on_gpus(const Case& c, int steps) {
  const Mesh mesh(mesh_shape(c.layout), static_cast<int>(world_size(c.layout)));
  EmulatedJob options{.job = {.ranks = mesh.size()}};
  for (const auto& [name, value] : comm::gpu_variables()) options.job.variables[name] = value;
  options.nccl = {.ordered_sums = c.reproducible, .buffer_bytes = 4096};
  std::vector<std::vector<double>> courses(static_cast<std::size_t>(mesh.size()));
  test::run_emulated(options, [&](EmulatedRank& own) {
    const EngineSpec spec = spec_of(c);
    const RankGroups groups(own.rank, mesh, c.layout, spec.model,
                            [&](const char* name, const std::vector<int>& ranks,
                                Messages messages) { return own.group(name, ranks, messages); });
    courses[static_cast<std::size_t>(own.rank)] = train(spec, groups, own.device, steps);
  });
  return courses;
}

Case alone(const Case& c) {
  Case one = c;
  one.layout = {};
  one.layout.data_shard = 1;
  return one;
}

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, of_several_gpus_is_that_of_one_rank) {
  const std::vector<double> expected =
      train(spec_of(alone(GetParam())), RankGroups(), Device{}, kSteps);
  for (const std::vector<double>& course : train_on_gpus(GetParam(), kSteps)) {
    ASSERT_EQ(course.size(), expected.size());
    for (std::size_t i = 0; i < course.size(); ++i) {
      // Some roundings of float32 in every sum.
      EXPECT_NEAR(course[i], expected[i], 2e-5 * expected[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Training,
    testing::Values(Case{"gpt2", layout(2, 1, 1)}, Case{"qwen3", layout(1, 2, 1, 2), true},
                    Case{"llama", layout(1, 1, 2)}, Case{"qwen3", layout(2, 1, 2)},
                    Case{"gpt2", layout(2, 2, 1, 1)}, Case{"llama", layout(1, 4, 1, 3)},
                    Case{"qwen3", layout(2, 2, 2, 0)}, Case{"llama", layout(4, 2, 1, 1), true},
                    Case{"qwen3_moe", with_experts(layout(1, 2, 1, 1), 2)},
                    Case{"qwen3_moe", with_experts(layout(2, 4, 1, 2), 2), true},
                    Case{"mixtral", with_experts(layout(1, 4, 1, 3), 4), true},
                    Case{"qwen3_moe", with_experts(layout(1, 2, 2, 1), 2)},
                    Case{"llama", with_context(layout(1, 1, 1), 2, ContextMethod::kAllGather)},
                    Case{"qwen3", with_context(layout(1, 2, 1, 2), 2, ContextMethod::kRing)},
                    Case{"gemma3_text", with_context(layout(2, 1, 1), 4, ContextMethod::kRing)},
                    Case{"llama", with_context(layout(1, 1, 2), 2, ContextMethod::kUlysses)},
                    Case{"qwen3", with_context(layout(1, 1, 1), 4, ContextMethod::kRing, 2)}));

// With job.reproducible: every sum has the order of one GPU's. 40 steps with TRIREME_THOROUGH=1.
class LongTraining : public testing::TestWithParam<Case> {};

TEST_P(LongTraining, ends_with_the_bits_of_one_gpu) {
  const int steps = std::getenv("TRIREME_THOROUGH") != nullptr ? 40 : 5;
  const std::vector<double> expected = train_on_gpus(alone(GetParam()), steps).front();
  for (const std::vector<double>& course : train_on_gpus(GetParam(), steps)) {
    EXPECT_EQ(course, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, LongTraining,
    testing::Values(Case{"gpt2", layout(1, 2, 1, 1), true}, Case{"qwen3", layout(1, 4, 1, 3), true},
                    Case{"llama", layout(4, 1, 1, 1), true},
                    Case{"llama", layout(2, 2, 1, 2), true},
                    Case{"qwen3", with_context(layout(1, 1, 1), 2, ContextMethod::kAllGather),
                         true},
                    Case{"qwen3_moe", with_experts(layout(1, 2, 1, 1), 2), true},
                    Case{"mixtral", with_experts(layout(2, 2, 1, 1), 2), true}));

// Ranks outside the emulated job have 1 MiB of host memory in each group besides.
TEST(Buffers, of_groups_are_planned_once_for_each_set_of_ranks) {
  for (const ParallelismConfig& c : {layout(1, 8, 1), layout(2, 2, 2), layout(4, 1, 2)}) {
    const ModelConfig model = test::tiny_model("gpt2");
    const Mesh mesh(mesh_shape(c), 8);
    EmulatedJob options{.job = {.ranks = 8}};
    options.nccl.buffer_bytes = comm::nccl_buffer_bytes(false) >> 10;
    test::run_emulated(options, [&](EmulatedRank& own) {
      std::size_t groups_of_several = 0;
      const RankGroups groups(
          own.rank, mesh, c, model,
          [&](const char* name, const std::vector<int>& ranks, Messages messages) {
            groups_of_several += ranks.size() > 1;
            return own.group(name, ranks, messages);
          });
      Traffic counted;
      const RankGroups planned(own.rank, mesh_shape(c), c, model, own.device,
                               /*reproducible=*/false, counted);
      EXPECT_EQ(planned.buffer_bytes() - groups_of_several * comm::kHostBufferBytes,
                groups.buffer_bytes() << 10);
    });
  }
}

}  // namespace
}  // namespace trireme
