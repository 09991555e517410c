#include "trainer/engine/step_graphs.h"

#include <algorithm>

#include "model/base/log.h"

namespace trireme {
std::string no_graph_because(const EngineSpec& spec, const RankGroups& groups, Device device) {
  if (!device.is_cuda()) return "the run is not on a GPU";
  if (const int ranks = groups.tensor->size(); ranks > 1) {
    return say("layers that ", ranks, " tensor ranks share wait for messages within a micro-batch");
  }
  if (const int ranks = groups.context->size(); ranks > 1) {
    return say("the attention that ", ranks, " context ranks share waits for messages");
  }
  if (spec.model.num_experts > 0) return "the routers of each micro-batch report to another place";
  if (spec.activation_checkpoint.offload) return "activation offload uses streams of its own";
  return {};
}

Tensor StepGraphs::launch(Stream& stream, const RankPlan::Step& step, Arena& saved,
                          const std::function<Tensor()>& compute) {
  const Key key = key_of(step);
  if (!replays_) return compute();
  const auto [found, is_new] = recordings_.try_emplace(key);
  std::optional<Recording>& recording = found->second;
  if (!recording && !is_new && records_) recording = record(stream, saved, compute);
  if (!recording) return compute();
  replay(stream, *recording, saved);
  return recording->output;
}

StepGraphs::Key StepGraphs::key_of(const RankPlan::Step& step) {
  const Action& action = step.action;
  const std::int64_t number = done_[{action.stage, action.kind}]++;
  return {action.kind,
          action.stage,
          step.slot,
          step.inbox,
          step.outbox,
          step.own_reader_inbox,
          step.forward_inbox,
          step.split_inbox,
          model_.gradient_place(number),
          model_.is_publishing(),
          action.kind == Action::Kind::kForward && number == 0};
}

std::optional<StepGraphs::Recording> StepGraphs::record(Stream& stream, Arena& saved,
                                                        const std::function<Tensor()>& compute) {
  const std::size_t saved_before = saved.used();
  const std::vector<bool> stale_before = model_.params().stale();
  // Exceptions of other kinds end the run, and the capture with it.
  try {
    Recording made;
    parts_.clear();
    parts_.emplace_back();
    stale_ = stale_before;
    capture_.emplace(stream);
    model_.log_hooks(this);
    made.output = compute();
    model_.log_hooks(nullptr);
    close_part();
    std::size_t nodes = 0;
    for (const Part& part : parts_) nodes += part.graph.nodes();
    nodes_ += nodes;
    if (nodes_ > kMostNodes) throw EnvironmentError(say("they have ", nodes_, " nodes already"));
    made.saved_bytes = saved.used();
    made.given = given();
    made.parts = std::move(parts_);
    return made;
  } catch (const EnvironmentError& error) {
    model_.log_hooks(nullptr);
    capture_.reset();
    parts_.clear();
    saved.set_used(saved_before);
    model_.params().set_stale(stale_before);
    replays_ = nodes_ > kMostNodes;  // existing ones are kept in use
    records_ = false;
    log_warning("job.cuda_graphs: {} micro-batches are launched without a graph from here on: {}",
                replays_ ? "other kinds of" : "all", error.what());
    return {};
  }
}

void StepGraphs::replay(Stream& stream, Recording& recording, Arena& saved) {
  for (Part& part : recording.parts) {
    for (const HookCall& call : part.calls) model_.call(stream, call);
    part.graph.launch(stream);
  }
  saved.set_used(recording.saved_bytes);
  if (recording.given.empty()) return;
  std::vector<bool> stale = model_.params().stale();
  for (std::size_t i = 0; i < stale.size(); ++i) stale[i] = stale[i] && !recording.given[i];
  model_.params().set_stale(stale);
}

// A hook that queues nothing may be called before the graph that it falls into.
void StepGraphs::called(Stream& stream, const HookCall& call) {
  if (call.queues) {
    close_part();
    parts_.emplace_back();
    capture_.emplace(stream);
  }
  parts_.back().calls.push_back(call);
  if (call.kind != HookCall::Kind::kBeforeGradients) return;
  const std::vector<bool> now = model_.params().stale();
  for (std::size_t i = 0; i < now.size(); ++i) stale_[i] = stale_[i] || now[i];
}

void StepGraphs::close_part() {
  parts_.back().graph = capture_->finish();
  capture_.reset();
}

std::vector<bool> StepGraphs::given() const {
  const std::vector<bool> left = model_.params().stale();
  std::vector<bool> given = stale_;
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = given[i] && !left[i];
  if (std::find(given.begin(), given.end(), true) == given.end()) return {};
  return given;
}

}  // namespace trireme
