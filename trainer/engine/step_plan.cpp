#include "trainer/engine/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/ops/gemm.h"
#include "trainer/config/sequence_length.h"
#include "trainer/engine/engine.h"

namespace trireme {
namespace {

// A CPU has nowhere to offload to.
Arenas::Offload offload_of(const EngineSpec& spec, const PipelineLayout& layout, Device device) {
  if (!device.is_cuda()) return {};
  Arenas::Offload offload{.optimizer = spec.optimizer.offload};
  if (!spec.activation_checkpoint.offload) return offload;
  for (const int stage : layout.stages) {
    const auto blocks = static_cast<std::size_t>(layout.layers_of(stage));
    offload.in_window = std::max(offload.in_window, std::min(blocks, BlockWindow::kBuffers));
  }
  return offload;
}

Arenas planning_arenas(const EngineSpec& spec, const RankGroups& groups, Device device) {
  const PipelineLayout layout(spec, groups);
  Arenas arenas = Arenas::unbounded(device, layout.slots.slots, offload_of(spec, layout, device));
  arenas.buffers = groups.buffer_bytes();
  arenas.products = ops::gemm_workspace_bytes(device);
  return arenas;
}

std::int64_t parameter_count(const ParamStore& whole) {
  std::int64_t count = 0;
  for (const Weight& weight : whole.weights()) {
    for (const Param& param : weight.parts) count += param.spec.shape.count();
  }
  return count;
}

// Trains a shortest step and a full one; the plan is of the full one. A run may begin with its
// shortest steps and compares its memory after each step, so that both must take the same.
void walk_steps(Engine& engine, const RankGroups& groups, const Arenas& arenas, Tally& tally,
                StepPlan& plan) {
  const EngineSpec& spec = engine.spec();
  if (!spec.fewer_micro_batches.empty()) {
    engine.take_micro_batches(spec.fewer_micro_batches.front());
    train_step(engine, 0, 1, 1);
    plan.memory = arenas.peaks();
    engine.take_micro_batches(spec.micro_batches);
  }
  tally = {};
  if (groups.sent) {
    for (auto& [name, sent] : *groups.sent) sent = {};
  }
  compute_gradients(engine, /*valid_tokens=*/1);
  plan.issued = tally;
  apply_update(engine, /*learning_rate=*/0, /*update=*/1);
  if (groups.sent) plan.sent = *groups.sent;
  require(spec.fewer_micro_batches.empty() || arenas.peaks() == plan.memory,
          "a step of fewer micro-batches takes other memory than a full step");
  plan.memory = arenas.peaks();
}

// What a run does between its steps fits in their memory.
void require_no_more_memory(Engine& engine, const Arenas& arenas, const MemoryPlan& memory) {
  engine.evaluate();
  require(arenas.peaks() == memory, "an evaluation takes more memory than a step");
  const EngineSpec& spec = engine.spec();
  if (spec.sample_length == 0) return;
  engine.decoder().next_logits(0);
  if (arenas.peaks() == memory) return;
  throw ConfigError(
      say("validation.sample_freq: generating a token takes more memory than a step "
          "with ",
          spec.training.local_batch_size * spec.training.seq_len,
          " tokens per micro-batch; increase training.seq_len or "
          "training.local_batch_size"));
}

}  // namespace

namespace {

enum class MicroBatchesWalked : std::uint8_t { kAll, kWithoutRepeats };

// Of an engine that plans a step, `finish` (StepPlan&, Engine&, Arenas&) makes the rest of the
// plan.
template <class Finish>
StepPlan walked_step(const EngineSpec& spec, const RankGroups& groups, Device device,
                     MicroBatchesWalked walked, const Finish& finish) {
  StepPlan plan;
  Tally tally;
  Stream stream(device, tally);
  Arenas arenas = planning_arenas(spec, groups, device);
  Engine engine(spec, groups, stream, arenas);
  if (walked == MicroBatchesWalked::kWithoutRepeats) engine.leave_out_repeats();
  walk_steps(engine, groups, arenas, tally, plan);
  finish(plan, engine, arenas);
  return plan;
}

MemoryPlan memory_of_step(const EngineSpec& spec, const RankGroups& groups, Device device) {
  const auto check = [](const StepPlan& plan, Engine& engine, Arenas& arenas) {
    require_no_more_memory(engine, arenas, plan.memory);
  };
  return walked_step(spec, groups, device, MicroBatchesWalked::kWithoutRepeats, check).memory;
}

}  // namespace

StepPlan plan_step(const EngineSpec& spec, const RankGroups& groups, Device device) {
  const auto finish = [](StepPlan& plan, Engine& engine, Arenas& arenas) {
    require_no_more_memory(engine, arenas, plan.memory);
    const ModelState& model = engine.model();
    const PipelineLayout& layout = engine.layout();
    plan.parameters = parameter_count(model.whole());
    plan.state_bytes = model.checkpoint_bytes();
    plan.unique_state_bytes = model.unique_checkpoint_bytes();
    plan.state = state_bytes(model);
    plan.stages = layout.stages;
    plan.pool_of_stage = layout.slots.of_stage;
    plan.layers_per_stage = layout.layers_per_stage;
  };
  return walked_step(spec, groups, device, MicroBatchesWalked::kAll, finish);
}

EnginePlan plan_engine(const EngineSpec& spec, const RankGroups& groups, Device device) {
  EnginePlan plan{plan_step(spec, groups, device), {}};
  EngineSpec direct = spec;
  Recompute& recompute = direct.activation_checkpoint.mode;
  plan.useful = plan.issued;
  if (recompute == Recompute::kNone) return plan;
  recompute = Recompute::kNone;
  plan.useful = plan_step(direct, groups, device).issued;
  return plan;
}

MemoryPlan plan_memory(const RunConfig& config, const RankGroups& groups, Device device) {
  std::optional<MemoryPlan> most;
  for (const EngineSpec& spec : engine_specs(config)) {
    const MemoryPlan memory = plan_step(spec, groups, device).memory;
    most = most ? larger_of(*most, memory) : memory;
  }
  return most.value();
}

StepPlan plan_of_rank(const RunConfig& config, Device device, int rank) {
  Traffic sent;
  const ParallelismConfig& layout = config.parallelism;
  const RankGroups groups(rank, mesh_shape(layout), layout, config.model, device,
                          config.job.reproducible, sent);
  StepPlan plan = plan_step(engine_spec(config), groups, device);
  if (sequence_lengths(config).size() > 1) plan.memory = plan_memory(config, groups, device);
  return plan;
}

MemoryPlan memory_of_rank(const RunConfig& config, Device device, int rank) {
  Traffic sent;
  const ParallelismConfig& layout = config.parallelism;
  const RankGroups groups(rank, mesh_shape(layout), layout, config.model, device,
                          config.job.reproducible, sent);
  if (sequence_lengths(config).size() > 1) return plan_memory(config, groups, device);
  return memory_of_step(engine_spec(config), groups, device);
}

void require_foretold(const RunConfig& config, const RankGroups& groups, Device device,
                      const MemoryPlan& plan) {
  const int rank = groups.all->rank();
  MemoryPlan foretold = plan_of_rank(config, device, rank).memory;
  if (device.is_cuda()) foretold.buffers = plan.buffers;
  if (foretold == plan) return;
  throw Error(fmt::format("trireme plan predicts different memory for rank {}: {}", rank,
                          differences(foretold, plan)));
}

}  // namespace trireme
