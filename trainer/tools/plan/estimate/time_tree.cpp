#include "trainer/tools/plan/estimate/time_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "model/base/human.h"
#include "trainer/tools/plan/estimate/kind_names.h"
#include "trainer/tools/plan/estimate/op_nodes.h"

namespace trireme {
namespace {

// A kind of layer, or an end of the model, on a rank.
struct LayerTimes {
  std::string name, detail;
  double times = 1;  // in a step
  OpTimes forward = {}, recomputation = {}, backward = {};
};

struct Pass {
  const char* name;
  OpTimes LayerTimes::*list;
};
constexpr std::array kPasses{Pass{"forward", &LayerTimes::forward},
                             Pass{"recomputation", &LayerTimes::recomputation},
                             Pass{"backward", &LayerTimes::backward}};

PlanNode named_node(std::string name, std::string detail = {}) {
  return {.name = std::move(name), .detail = std::move(detail)};
}

PlanNode link_node(std::string name, double seconds, double bytes) {
  PlanNode node = named_node(std::move(name));
  node.amount = seconds;
  node.bytes = bytes;
  node.bound = "link";
  return node;
}

class TimeTree {
 public:
  TimeTree(const Workload& work, const StepOps& ops, const DeviceProfile& device,
           const StepEstimate& estimate)
      : work_(work),
        ops_(ops),
        device_(device),
        estimate_(estimate),
        sums_(estimate.sums),
        micro_batches_(static_cast<double>(work.spec.micro_batches)),
        names_(kind_names(work, ops)),
        layers_(layers_of_stages(ops.kind_of, estimate.layers_per_stage)) {}
  PlanNode tree();

 private:
  OpTimes times_of(const PartOps::List& list) const {
    OpTimes each;
    list_time(list, work_, device_, &each);
    return each;
  }
  StageLayers layers_of(int rank) const;
  std::vector<LayerTimes> layer_times() const;
  void add_ends(const StageLayers& on_rank, std::vector<LayerTimes>& all) const;
  PlanNode pass(const Pass& which, const std::vector<LayerTimes>& layers,
                std::string_view axis) const;
  PlanNode update() const;
  PlanNode communication(const std::vector<LayerTimes>& layers) const;
  PlanNode data() const;
  PlanNode offload() const;
  template <class Term>
  double over_stages(const Term& term) const;

  const Workload& work_;
  const StepOps& ops_;
  const DeviceProfile& device_;
  const StepEstimate& estimate_;
  const StepSums& sums_;
  const double micro_batches_;
  const std::vector<std::string> names_;
  const std::vector<StageLayers> layers_;
};

// All layers of a rank's stages.
StageLayers TimeTree::layers_of(int rank) const {
  StageLayers all{.of_kind = std::vector<std::int64_t>(ops_.kinds.size())};
  for (const int stage : stages_of_rank(estimate_.schedule, rank)) {
    const StageLayers& layers = layers_[static_cast<std::size_t>(stage)];
    for (std::size_t kind = 0; kind < all.of_kind.size(); ++kind) {
      all.of_kind[kind] += layers.of_kind[kind];
    }
    all.is_first |= layers.is_first;
    all.is_last |= layers.is_last;
  }
  return all;
}

// Without a pipeline the first part has both ends.
void TimeTree::add_ends(const StageLayers& on_rank, std::vector<LayerTimes>& all) const {
  const std::string detail = counted(work_.spec.micro_batches, "micro-batch");
  if (on_rank.is_first) {
    all.insert(all.begin(), {.name = "embedding",
                             .detail = detail,
                             .times = micro_batches_,
                             .forward = times_of(ops_.first.forward),
                             .backward = times_of(ops_.first.backward)});
  }
  if (!on_rank.is_last) return;
  LayerTimes head{.name = "head", .detail = detail, .times = micro_batches_};
  if (work_.mesh.pipeline > 1) {
    head.forward = times_of(ops_.last.forward);
    head.backward = times_of(ops_.last.backward);
  } else {
    const PartOps embedding = record_embedding(work_.spec, work_.mesh, device_.device());
    const auto of_embedding = [&](const PartOps::List& list) {
      return static_cast<std::ptrdiff_t>(times_of(list).size());
    };
    OpTimes& forward = all.front().forward;
    const auto head_begins = forward.begin() + of_embedding(embedding.forward);
    head.forward.assign(head_begins, forward.end());
    forward.erase(head_begins, forward.end());
    OpTimes& backward = all.front().backward;
    const auto head_ends = backward.end() - of_embedding(embedding.backward);
    head.backward.assign(backward.begin(), head_ends);
    backward.erase(backward.begin(), head_ends);
  }
  all.push_back(std::move(head));
}

std::vector<LayerTimes> TimeTree::layer_times() const {
  std::vector<LayerTimes> all;
  const StageLayers on_rank = layers_of(sums_.busiest);
  for (std::size_t kind = 0; kind < on_rank.of_kind.size(); ++kind) {
    const std::int64_t count = on_rank.of_kind[kind];
    if (count == 0) continue;
    LayerTimes layer{.name = names_[kind],
                     .detail = fmt::format("{} x {}", counted(count, "block"),
                                           counted(work_.spec.micro_batches, "micro-batch")),
                     .times = static_cast<double>(count) * micro_batches_,
                     .forward = times_of(ops_.kinds[kind].forward)};
    for (const OpTime& one : times_of(ops_.kinds[kind].backward)) {
      (one.op->recomputes ? layer.recomputation : layer.backward).push_back(one);
    }
    all.push_back(std::move(layer));
  }
  add_ends(on_rank, all);
  return all;
}

// Whether a message is along the axis, whose name its group's begins with; without an axis whether
// it is an op.
bool is_along(const OpTime& one, std::string_view axis) {
  if (axis.empty() || !one.is_message()) return axis.empty() && !one.is_message();
  return std::string_view(one.op->name).starts_with(axis);
}

// Computation, or with an axis the communication along it.
PlanNode TimeTree::pass(const Pass& which, const std::vector<LayerTimes>& layers,
                        std::string_view axis) const {
  PlanNode node = named_node(which.name);
  for (const LayerTimes& layer : layers) {
    PlanNode of_layer = named_node(layer.name, layer.detail);
    for (PlanNode& op : op_nodes(layer.*which.list, layer.times, sums_.pace,
                                 [&](const OpTime& one) { return is_along(one, axis); })) {
      of_layer.add(std::move(op));
    }
    node.add(std::move(of_layer));
  }
  return node;
}

PlanNode TimeTree::update() const {
  PlanNode node = named_node("optimizer", work_.mesh.pipeline == 1
                                              ? std::string()
                                              : fmt::format("pipeline rank {}", sums_.updating));
  const StageLayers on_rank = layers_of(sums_.updating);
  const auto add = [&](std::string name, std::string detail, const PartOps& part, double times) {
    PlanNode of_part = named_node(std::move(name), std::move(detail));
    OpTimes all = times_of(part.update);
    // What completes the gradients, but for its messages.
    for (const OpTime& one : times_of(part.finish)) {
      if (one.op->kind == PlannedOp::Kind::kMemory) all.push_back(one);
    }
    for (PlanNode& op : op_nodes(all, times, 1, [](const OpTime&) { return true; })) {
      of_part.add(std::move(op));
    }
    node.add(std::move(of_part));
  };
  for (std::size_t kind = 0; kind < on_rank.of_kind.size(); ++kind) {
    const std::int64_t count = on_rank.of_kind[kind];
    if (count > 0) {
      add(names_[kind], counted(count, "block"), ops_.kinds[kind], static_cast<double>(count));
    }
  }
  const bool is_split = work_.mesh.pipeline > 1;
  if (on_rank.is_first) add(is_split ? "embedding" : "embedding and head", "", ops_.first, 1);
  if (on_rank.is_last && is_split) add("head", "", ops_.last, 1);
  return node;
}

template <class Term>
double TimeTree::over_stages(const Term& term) const {
  double sum = 0;
  for (const int stage : stages_of_rank(estimate_.schedule, sums_.busiest)) {
    sum += term(sums_.stages[static_cast<std::size_t>(stage)]);
  }
  return sum * micro_batches_;
}

PlanNode TimeTree::data() const {
  PlanNode node = named_node("data");
  if (work_.spec.parallelism.zero >= 2) {
    node.add(link_node("weights for the forward",
                       sums_.pace * over_stages([](const StageCosts& c) { return c.forward_data; }),
                       over_stages([](const StageCosts& c) { return c.forward.data.bytes; })));
    node.add(
        link_node("weights and gradients of the backward",
                  sums_.pace * over_stages([](const StageCosts& c) { return c.backward_data; }),
                  over_stages([](const StageCosts& c) { return c.backward.data.bytes; })));
  }
  node.add(link_node("reduction of gradients", sums_.reducing, sums_.reduced.bytes));
  node.add(link_node("gather of updated weights", sums_.publishing, sums_.published.bytes));
  return node;
}

PlanNode TimeTree::communication(const std::vector<LayerTimes>& layers) const {
  PlanNode node = named_node("exposed communication");
  for (const char* axis : {"tensor", "context", "expert"}) {
    PlanNode along = named_node(axis);
    for (const Pass& which : kPasses) along.add(pass(which, layers, axis));
    node.add(std::move(along));
  }
  node.add(data());
  PlanNode pipeline = named_node("pipeline");
  pipeline.add(link_node("all_reduce of the tied table's gradient", sums_.tied, 0));
  node.add(std::move(pipeline));
  return node;
}

PlanNode TimeTree::offload() const {
  const double saved = over_stages([](const StageCosts& c) { return c.saved.bytes; });
  PlanNode node = named_node("offload");
  node.add(link_node(
      "activations to the host",
      sums_.pace * over_stages([](const StageCosts& c) { return c.forward.offload; }), saved));
  node.add(link_node(
      "activations from the host",
      sums_.pace * over_stages([](const StageCosts& c) { return c.backward.offload; }), saved));
  double state = 0;
  for (const int stage : stages_of_rank(estimate_.schedule, sums_.updating)) {
    state += sums_.stages[static_cast<std::size_t>(stage)].state.bytes;
  }
  node.add(link_node("optimizer state, both ways", sums_.state, 2 * state));
  return node;
}

PlanNode TimeTree::tree() {
  PlanNode root = named_node("step");
  const std::vector<LayerTimes> layers = layer_times();
  for (const Pass& which : kPasses) root.add(pass(which, layers, {}));
  root.add(update());
  root.add(communication(layers));
  const auto add = [&](const char* name, double seconds) {
    PlanNode node = named_node(name);
    node.amount = seconds;
    root.add(std::move(node));
  };
  if (work_.mesh.pipeline > 1) add("pipeline bubble", estimate_.parts.bubble);
  if (estimate_.parts.waiting > 0) add("slowest node", estimate_.parts.waiting);
  root.add(offload());
  return root;
}

}  // namespace

PlanNode time_tree(const Workload& work, const StepOps& ops, const DeviceProfile& device,
                   const StepEstimate& estimate) {
  return TimeTree(work, ops, device, estimate).tree();
}

}  // namespace trireme
