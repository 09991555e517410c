#include "trainer/tools/plan/operations.h"

#include <gtest/gtest.h>

#include "tests/trainer/engine/tiny_engine.h"
#include "trainer/tools/plan/estimate.h"

namespace trireme {
namespace {

Workload workload_of(const EngineSpec& spec) {
  const Recomputed recomputed = spec.recompute == Recompute::kFull ? Recomputed::kAll
                                : spec.recompute == Recompute::kSelective
                                    ? Recomputed::kNormsAndActivations
                                    : Recomputed::kNothing;
  return {.model = spec.model,
          .numbers = NumberFormat::kFloat32,
          .recomputed = recomputed,
          .seq_len = spec.seq_len,
          .micro_batch = spec.micro_batch,
          .micro_batches = spec.micro_batches};
}

// Of a step of one rank.
double recomputed_flops(const Workload& work) {
  double sum = 0;
  for (const Operation& op : operations_of(work).recomputed) {
    sum += op.flops;
    if (op.kind == Operation::Kind::kProduct) sum += op.product_flops();
  }
  return static_cast<double>(work.micro_batches * work.model.num_hidden_layers) * sum;
}

// The FLOPs of the list are those that the trainer counts while it plans.
TEST(Operations, AreThoseThatTheLayersIssue) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      EngineSpec spec = test::spec_of(family);
      spec.recompute = recompute;
      spec.model.vocab_size = 128;  // no padding, which the head multiplies too
      const EnginePlan plan = plan_engine(spec, RankGroups(), Device{});
      const Workload work = workload_of(spec);
      const StepEstimate estimate = estimate_step(work, find_profile("CPU"));
      EXPECT_DOUBLE_EQ(estimate.useful_flops, plan.useful.matmul + plan.useful.attention_causal)
          << family;
      EXPECT_DOUBLE_EQ(estimate.useful_flops + recomputed_flops(work),
                       plan.issued.matmul + plan.issued.attention_causal)
          << family << static_cast<int>(recompute);
    }
  }
}

TEST(Operations, TensorRanksDivideTheWork) {
  const Workload alone = workload_of(test::spec_of("gpt2"));
  Workload shared = alone;
  shared.mesh.tensor = 4;
  shared.sequence = true;
  const DeviceProfile cpu = find_profile("CPU");
  EXPECT_DOUBLE_EQ(estimate_step(alone, cpu).useful_flops, estimate_step(shared, cpu).useful_flops);
}

}  // namespace
}  // namespace trireme
