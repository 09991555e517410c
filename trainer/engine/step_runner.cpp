#include "trainer/engine/step_runner.h"

#include <algorithm>

#include "model/device/profile_range.h"
#include "model/ops/gemm.h"

namespace trireme {
namespace {

constexpr int kReceiveAhead = 1;

std::size_t largest_gradient(const ParamStore& params) {
  std::size_t most = 0;
  for (const Weight& weight : params.weights()) most = std::max(most, weight.grad.bytes());
  return most;
}

}  // namespace

StepRunner::StepRunner(const EngineSpec& spec, const RankGroups& groups,
                       const PipelineLayout& layout, Stream& stream, Arenas& arenas, Parts parts)
    : spec_(spec),
      layout_(layout),
      stream_(stream),
      parts_(parts),
      uses_graphs_(parts.inputs.has_slots()),
      has_peers_(groups.all->size() > 1),
      largest_gradient_(largest_gradient(parts.model.params())),
      followed_(layout.schedules.size() - 1),
      in_step_(spec.micro_batches),
      pipeline_(parts.model.stages(), layout.schedules,
                Shape{parts.model.region().own_tokens(parts.inputs.tokens_per_micro_batch()),
                      spec.model.hidden_size},
                Pipeline::Links{*groups.pp_forward, *groups.pp_backward, kReceiveAhead},
                pipeline_memory(arenas)),
      graphs_(parts.model) {
  pipeline_.observe(&parts.progress);
  if (uses_graphs_ && stream.executes()) pipeline_.launch_by(graphs_);
}

Pipeline::Memory StepRunner::pipeline_memory(Arenas& arenas) {
  std::vector<BlockMemory*> blocks;
  if (!arenas.window.empty()) {
    window_.emplace(arenas.window);
    for (Arena& host : arenas.offloaded) blocks.push_back(&offloaded_.emplace_back(*window_, host));
  }
  return {arenas.activations, arenas.workspace, arenas.communication, std::move(blocks),
          layout_.slots};
}

void StepRunner::take_micro_batches(std::int64_t count) {
  const std::vector<std::int64_t>& fewer = spec_.fewer_micro_batches;
  const auto found = std::find(fewer.begin(), fewer.end(), count);
  require(found != fewer.end() || count == spec_.micro_batches, "no step has ", count,
          " micro-batches");
  in_step_ = count;
  followed_ = static_cast<std::size_t>(found - fewer.begin());  // of a full step: the last
  pipeline_.follow(followed_);
}

void StepRunner::leave_out_repeats() {
  if (!window_) pipeline_.leave_out_repeats();
}

// Before the first receive, behind which nothing may be allocated.
void StepRunner::prepare() {
  if (has_peers_) ops::prepare_gemm(stream_, largest_gradient_);
}

void StepRunner::queue_gradients(std::int64_t update) {
  parts_.progress.enter(flight::Phase::kForward);
  prepare();
  StepLosses& losses = parts_.losses;
  graphs_.begin_step();
  parts_.model.begin_gradients(in_step_);
  losses.upload_scale();
  parts_.inputs.upload(stream_, in_step_);
  losses.clear();
  RouterStats* const routers = parts_.routers;
  if (routers) {
    routers->clear();
    parts_.model.take_expert_rounds();  // discards those of evaluations
  }
  const StepInputs& inputs = parts_.inputs;
  pipeline_.run(
      stream_,
      [&](int m, int slot) {
        MicroBatch batch = uses_graphs_
                               ? inputs.micro_batch_in_slot(stream_, m, slot, losses.scale())
                               : inputs.micro_batch(m, losses.scale());
        batch.router_scale = losses.router_scale();
        if (routers) batch.routers = routers->sink(m);
        return batch;
      },
      [&](int m, Tensor loss) { losses.add(m, loss); });
  parts_.progress.enter(flight::Phase::kReduce);
  const ProfileRange range(stream_, "reduce gradients");
  parts_.model.finish_gradients(stream_, update);
  losses.gather();
  if (routers) routers->gather(parts_.model.take_expert_rounds());
}

void StepRunner::evaluate(const Pipeline::OnLoss& on_loss) {
  parts_.progress.enter(flight::Phase::kValidate);
  prepare();
  parts_.model.begin_evaluation();
  parts_.inputs.upload(stream_, in_step_);
  pipeline_.evaluate(
      stream_,
      [&](int m, int) {
        MicroBatch batch = parts_.inputs.micro_batch(m);
        batch.dropout_words = batch.shard.heads.dropout_words = {};
        return batch;
      },
      on_loss);
}

}  // namespace trireme
