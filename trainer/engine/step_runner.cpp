#include "trainer/engine/step_runner.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int kReceiveAhead = 1;

}  // namespace

std::string no_graph_because(const EngineSpec& spec, const RankGroups& groups, Device device) {
  if (!device.is_cuda()) return "the run is not on a GPU";
  if (const int ranks = groups.all->size(); ranks > 1) {
    return say("a step of ", ranks, " ranks waits for messages, which a graph cannot capture");
  }
  if (spec.activation_checkpoint.offload) return "activation offload uses streams of its own";
  return {};
}

StepRunner::StepRunner(const EngineSpec& spec, const RankGroups& groups,
                       const PipelineLayout& layout, Stream& stream, Arenas& arenas, Parts parts)
    : spec_(spec),
      layout_(layout),
      stream_(stream),
      parts_(parts),
      can_use_graphs_(spec.job.cuda_graphs && stream.executes() &&
                      no_graph_because(spec, groups, stream.device()).empty()),
      followed_(layout.schedules.size() - 1),
      in_step_(spec.micro_batches),
      pipeline_(parts.model.stages(), layout.schedules,
                Shape{parts.model.region().own_tokens(parts.inputs.tokens_per_micro_batch()),
                      spec.model.hidden_size},
                Pipeline::Links{*groups.pp_forward, *groups.pp_backward, kReceiveAhead},
                pipeline_memory(arenas)) {
  pipeline_.observe(&parts.progress);
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

void StepRunner::observe(PipelineObserver* observer) {
  is_observed_ = observer != nullptr;
  parts_.progress.pass_on_to(observer);
}

bool StepRunner::uses_graphs() const {
  return can_use_graphs_ && !is_observed_;
}

void StepRunner::queue_gradients(std::int64_t update) {
  parts_.progress.enter(flight::Phase::kForward);
  if (!uses_graphs()) return issue_gradients(update);
  if (const auto graph = graphs_.find(in_step_); graph != graphs_.end()) {
    return graph->second.launch(stream_);
  }
  // The first step chooses algorithms by timing them, which a recording must not.
  issue_gradients(update);
  graphs_.try_emplace(in_step_, stream_, [&] { issue_gradients(update); });
}

// What changes from step to step is read from memory, so that a graph of it can be replayed.
void StepRunner::issue_gradients(std::int64_t update) {
  StepLosses& losses = parts_.losses;
  parts_.model.begin_gradients(in_step_);
  losses.upload_scale();
  parts_.inputs.upload(stream_);
  losses.clear();
  pipeline_.run(
      stream_, [&](int m) { return parts_.inputs.micro_batch(m, losses.scale()); },
      [&](int m, Tensor loss) { losses.add(m, loss); });
  parts_.progress.enter(flight::Phase::kReduce);
  parts_.model.finish_gradients(stream_, update);
  losses.gather();
}

void StepRunner::evaluate(const Pipeline::OnLoss& on_loss) {
  parts_.progress.enter(flight::Phase::kValidate);
  parts_.inputs.upload(stream_);
  pipeline_.evaluate(
      stream_, [&](int m) { return parts_.inputs.micro_batch(m); }, on_loss);
}

}  // namespace trireme
