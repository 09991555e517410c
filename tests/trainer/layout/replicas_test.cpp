// In every layout a clean run's replicas are equal, and where one bit of what has replicas is
// flipped, the rank and the tensor are named. Run under mpirun; each program of N ranks tries
// the layouts of N ranks.
#include <gtest/gtest.h>

#include <ostream>

#include "model/base/philox.h"
#include "tests/parallel/mpi_world.h"
#include "tests/tiny_model.h"
#include "trainer/engine/replica_check.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

constexpr std::int64_t kReplicaSeq = 16;

struct ReplicaCase {
  const char* name;
  ParallelismConfig layout;
  int rank;                     // whose bit is flipped
  const char* tensor;           // in
  std::vector<int> blamed;      // empty: there is no other copy
  const char* state = nullptr;  // of the optimizer; null: the master
  bool tied = true;
  DType compute = DType::kF32;
};
std::ostream& operator<<(std::ostream& out, const ReplicaCase& c) {
  return out << c.name;
}

ParallelismConfig replica_layout(std::int64_t pipeline, std::int64_t replicate, std::int64_t shard,
                                 std::int64_t tensor, std::int64_t zero = 1) {
  ParallelismConfig parallelism;
  parallelism.pipeline = pipeline;
  parallelism.data_replicate = replicate;
  parallelism.data_shard = shard;
  parallelism.tensor = tensor;
  parallelism.zero = zero;
  return parallelism;
}

ParallelismConfig in_sequence(ParallelismConfig parallelism) {
  parallelism.sequence = true;
  return parallelism;
}

EngineSpec replica_spec(const ReplicaCase& c) {
  EngineSpec spec;
  // Fewer key-value heads than tensor = 4.
  spec.model = test::tiny_model("llama", {.layers = 4, .positions = kReplicaSeq});
  spec.model.tie_word_embeddings = c.tied;
  spec.data.document_mask = true;
  spec.training.seq_len = kReplicaSeq;
  spec.parallelism = c.layout;
  spec.compute = c.compute;
  spec.micro_batches = 2;
  return spec;
}

void fill_replica(Engine& engine, std::uint64_t step) {
  const data::TokenBatch batch = engine.batch();
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const auto words = philox(step, static_cast<std::uint64_t>(engine.data_rank()) * 1000 + i);
    batch.ids[i] = static_cast<std::int32_t>(words[0] % 61);
    batch.targets[i] = static_cast<std::int32_t>(words[1] % 61);
    batch.positions[i] = static_cast<std::int32_t>(i % kReplicaSeq);
    batch.document_start[i] = 0;
  }
}

std::byte* first_byte(Engine& engine, const ReplicaCase& c) {
  if (c.state) {
    for (const ShardedOptimizer::State& state : engine.model().optimizer().states()) {
      for (const ParamShard* shard : state.shards) {
        if (state.name != c.state || shard->param->spec.name != c.tensor) continue;
        return state.of(*shard).data;
      }
    }
    return nullptr;
  }
  if (engine.model().params().has_masters() || engine.model().params().sharing().values) {
    for (const ParamShard& shard : engine.model().params().shards()) {
      if (shard.param->spec.name == c.tensor) return shard.master.data;
    }
    return nullptr;
  }
  for (const Weight& weight : engine.model().params().weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name == c.tensor) return param.value.data;
    }
  }
  return nullptr;
}

class Replicas : public testing::TestWithParam<ReplicaCase> {};

TEST_P(Replicas, are_equal_until_a_bit_is_flipped) {
  const ReplicaCase& c = GetParam();
  if (world_size(c.layout) != tests::world().size()) {
    GTEST_SKIP() << "a layout of " << world_size(c.layout) << " ranks";
  }
  const EngineSpec spec = replica_spec(c);
  const RankGroups groups(tests::world(), c.layout, spec.model);
  const EnginePlan plan = plan_engine(spec, groups, {});
  Stream stream;
  Arenas arenas(plan.memory, {});
  Engine engine(spec, groups, stream, arenas);
  engine.model().params().initialize(1);
  engine.model().publish_masters(engine.stream());
  ReplicaCheck check(engine, groups, arenas.weights_in_common);
  EXPECT_FALSE(check.find());
  for (int step = 1; step <= 3; ++step) {
    fill_replica(engine, static_cast<std::uint64_t>(step));
    train_step(engine, 1e-2, step, 2 * kReplicaSeq * groups.data->size());
    EXPECT_FALSE(check.find()) << "after step " << step;
  }
  if (groups.all->rank() == c.rank) {
    std::byte* const byte = first_byte(engine, c);
    ASSERT_NE(byte, nullptr) << "holds nothing of " << c.tensor;
    *byte ^= std::byte{1};
  }
  const auto verdict = check.find();
  if (c.blamed.empty()) {
    EXPECT_FALSE(verdict);
    return;
  }
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, c.blamed);
  EXPECT_EQ(verdict->by_majority, c.blamed.size() == 1);
  const char* const kind = c.state                                 ? c.state
                           : engine.model().params().has_masters() ? "masters"
                                                                   : "weights";
  EXPECT_EQ(verdict->tensors, std::vector{std::string(c.tensor) + " (" + kind + ")"});
}

constexpr const char* kMatrix = "layers.1.mlp.up.weight";
constexpr const char* kNorm = "layers.1.mlp_norm.weight";
constexpr const char* kKeys = "layers.1.attention.k.weight";
constexpr const char* kEmbedding = "embedding.weight";

// The ranks of a mesh: pipeline, replicate, shard, tensor, the last one fastest.
std::vector<ReplicaCase> cases() {
  return {
      {"replicate", replica_layout(1, 2, 1, 1, 0), 1, kMatrix, {0, 1}},
      {"replicate_state", replica_layout(1, 2, 1, 1, 0), 0, kMatrix, {0, 1}, "adam.v"},
      {"replicate_masters",
       replica_layout(1, 2, 1, 1, 0),
       0,
       kMatrix,
       {0, 1},
       nullptr,
       true,
       DType::kBf16},
      {"zero1", replica_layout(1, 1, 2, 1), 1, kMatrix, {0, 1}},
      {"zero1_state_alone", replica_layout(1, 1, 2, 1), 0, "layers.0.mlp.up.weight", {}, "adam.m"},
      {"zero3_alone", replica_layout(1, 1, 2, 1, 3), 0, kEmbedding, {}},
      {"tensor_norm", replica_layout(1, 1, 1, 2), 1, kNorm, {0, 1}},
      {"tensor_norm_in_sequence",
       in_sequence(replica_layout(1, 1, 1, 2)),
       0,
       kNorm,
       {0, 1},
       "adam.m"},
      {"tensor_matrix_alone", replica_layout(1, 1, 1, 2), 1, kMatrix, {}},
      {"pipeline_tied", replica_layout(2, 1, 1, 1), 1, kEmbedding, {0, 1}},
      {"pipeline_tied_state", replica_layout(2, 1, 1, 1), 0, kEmbedding, {0, 1}, "adam.v"},
      {"pipeline_untied", replica_layout(2, 1, 1, 1), 0, kEmbedding, {}, nullptr, false},
      {"replicate_of_4", replica_layout(1, 4, 1, 1, 0), 2, kMatrix, {2}},
      {"replicate_of_4_state", replica_layout(1, 4, 1, 1, 0), 3, kNorm, {3}, "adam.m"},
      {"replicas_and_tensor_norm", replica_layout(1, 2, 1, 2), 3, kNorm, {3}},
      {"replicas_and_tensor_matrix", replica_layout(1, 2, 1, 2), 3, kMatrix, {1, 3}},
      {"tensor_of_4_keys", replica_layout(1, 1, 1, 4), 1, kKeys, {0, 1}},
      {"tensor_of_4_norm", in_sequence(replica_layout(1, 1, 1, 4)), 1, kNorm, {1}},
      {"zero1_of_replicas", replica_layout(1, 2, 2, 1), 3, kNorm, {3}},
      {"zero2_of_replicas_masters",
       replica_layout(1, 2, 2, 1, 2),
       0,
       kEmbedding,
       {0, 2},
       nullptr,
       true,
       DType::kBf16},
      {"zero3_of_replicas", replica_layout(1, 2, 2, 1, 3), 0, kEmbedding, {0, 2}},
      {"pipeline_tied_of_replicas", replica_layout(2, 2, 1, 1), 1, kEmbedding, {1}},
      {"pipeline_and_tensor_tied", replica_layout(2, 1, 1, 2), 3, kEmbedding, {1, 3}},
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts, Replicas, testing::ValuesIn(cases()),
                         [](const auto& tried) { return std::string(tried.param.name); });

}  // namespace
}  // namespace trireme
