#include "trainer/tools/plan/memory_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/human.h"
#include "trainer/tools/plan/estimate/kind_names.h"

namespace trireme {
namespace {

PlanNode bytes_node(std::string name, double bytes, std::string detail = {}) {
  return {.name = std::move(name), .amount = bytes, .detail = std::move(detail)};
}
PlanNode bytes_node(std::string name, std::size_t bytes, std::string detail = {}) {
  return bytes_node(std::move(name), static_cast<double>(bytes), std::move(detail));
}

// `whole` with these parts and what they leave. It stays undivided if they are more, as they
// were planned for another state of the arena.
PlanNode divided(PlanNode whole, const std::vector<PlanNode>& parts, const char* rest) {
  PlanNode node{.name = whole.name, .detail = whole.detail};
  for (const PlanNode& part : parts) node.add(part);
  const double left = whole.amount - node.amount;
  if (node.children.empty() || left < 0) return whole;
  node.add(bytes_node(rest, left));
  return node;
}

class MemoryTree {
 public:
  MemoryTree(const PipelinePlace& place, const Workload& work, const StepOps* ops)
      : place_(place), memory_(place.step.memory), work_(work), ops_(ops) {}
  PlanNode tree() const;

 private:
  PlanNode of_params(const char* name, std::size_t bytes, std::size_t ParamBytes::*member,
                     const char* rest) const;
  PlanNode optimizer() const;
  std::vector<PlanNode> saved_in(int pool) const;
  std::vector<PlanNode> saved_by(const StageLayers& layers, std::size_t slots) const;
  PlanNode activations() const;

  const PipelinePlace& place_;
  const MemoryPlan& memory_;
  const Workload& work_;
  const StepOps* const ops_;
};

// A class of the parameters, by unit and parameter.
PlanNode MemoryTree::of_params(const char* name, std::size_t bytes, std::size_t ParamBytes::*member,
                               const char* rest) const {
  std::vector<PlanNode> units;
  for (const ParamBytes& param : place_.step.state.params) {
    auto unit = std::find_if(units.begin(), units.end(),
                             [&](const PlanNode& other) { return other.name == param.unit; });
    if (unit == units.end()) unit = units.insert(unit, {.name = param.unit});
    unit->add(bytes_node(param.name, param.*member));
  }
  if (member == &ParamBytes::weights && place_.step.state.codes > 0) {
    units.push_back(bytes_node("float8 codes", place_.step.state.codes));
  }
  return divided(bytes_node(name, bytes), units, rest);
}

PlanNode MemoryTree::optimizer() const {
  std::vector<PlanNode> states;
  for (const auto& [name, bytes] : place_.step.state.optimizer) {
    states.push_back(bytes_node(name, bytes));
  }
  return divided(bytes_node("optimizer", memory_.optimizer), states, "others");
}

// What a micro-batch saves in each of `slots`.
std::vector<PlanNode> MemoryTree::saved_by(const StageLayers& layers, std::size_t slots) const {
  const auto in_slots = static_cast<double>(slots);
  const std::vector<std::string> names = kind_names(work_, *ops_);
  const std::string of_end = counted(static_cast<std::int64_t>(slots), "slot");
  std::vector<PlanNode> all;
  const bool is_split = work_.mesh.pipeline > 1;
  if (layers.is_first) {
    all.push_back(bytes_node(is_split ? "embedding" : "embedding and head",
                             in_slots * ops_->first.saved_bytes, of_end));
  }
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    const std::int64_t count = layers.of_kind[kind];
    all.push_back(bytes_node(
        names[kind], in_slots * static_cast<double>(count) * ops_->kinds[kind].saved_bytes,
        fmt::format("{} x {} x {}", of_end, counted(count, "block"),
                    human_bytes(static_cast<std::uint64_t>(ops_->kinds[kind].saved_bytes)))));
  }
  if (layers.is_last && is_split) {
    all.push_back(bytes_node("head", in_slots * ops_->last.saved_bytes, of_end));
  }
  return all;
}

// Of the largest stage whose micro-batches are in the pool.
std::vector<PlanNode> MemoryTree::saved_in(int pool) const {
  const StepPlan& step = place_.step;
  std::vector<PlanNode> largest;
  // Offloaded blocks are in the window.
  if (ops_ == nullptr || memory_.in_window > 0) return largest;
  double most = 0;
  const std::vector<StageLayers> layers = layers_of_stages(ops_->kind_of, step.layers_per_stage);
  for (const auto& [stage, of_stage] : step.pool_of_stage) {
    if (of_stage != pool) continue;
    std::vector<PlanNode> saved = saved_by(layers[static_cast<std::size_t>(stage)],
                                           memory_.in_flight[static_cast<std::size_t>(pool)].slots);
    double bytes = 0;
    for (const PlanNode& node : saved) bytes += node.amount;
    if (bytes > most) {
      most = bytes;
      largest = std::move(saved);
    }
  }
  return largest;
}

PlanNode MemoryTree::activations() const {
  PlanNode node{.name = "activations"};
  for (std::size_t pool = 0; pool < memory_.in_flight.size(); ++pool) {
    const MemoryPlan::Pool& slots = memory_.in_flight[pool];
    std::string stages;
    for (const auto& [stage, of_stage] : place_.step.pool_of_stage) {
      if (of_stage != static_cast<int>(pool)) continue;
      stages += fmt::format("{}{}", stages.empty() ? "" : ", ", stage);
    }
    const PlanNode whole =
        bytes_node("micro-batches in flight, stage " + stages, slots.slots * slots.activations,
                   fmt::format("{} x {}", counted(static_cast<std::int64_t>(slots.slots), "slot"),
                               human_bytes(slots.activations)));
    node.add(divided(whole, saved_in(static_cast<int>(pool)), "others"));
  }
  node.add(bytes_node(
      "window of blocks that are not offloaded", memory_.window * memory_.in_window,
      fmt::format("{} x {}", counted(static_cast<std::int64_t>(memory_.in_window), "block"),
                  human_bytes(memory_.window))));
  return node;
}

PlanNode MemoryTree::tree() const {
  PlanNode root{.name = "memory"};
  root.add(
      of_params("weights", memory_.weights, &ParamBytes::weights, "constant tables and padding"));
  root.add(of_params("masters", memory_.masters, &ParamBytes::masters, "padding"));
  root.add(of_params("gradients", memory_.gradients, &ParamBytes::gradients,
                     "buffers of the reduction and padding"));
  root.add(optimizer());
  root.add(activations());
  PlanNode workspace{.name = "workspace"};
  workspace.add(bytes_node("temporaries of ops", memory_.workspace));
  workspace.add(bytes_node("matmul library", memory_.products));
  root.add(std::move(workspace));
  root.add(bytes_node("data", memory_.data));
  PlanNode communication{.name = "communication"};
  communication.add(bytes_node("staging of messages", memory_.communication));
  communication.add(bytes_node("buffers of communicators", memory_.buffers));
  root.add(std::move(communication));
  // On the CPU both are in the same memory.
  root.add(bytes_node("checkpoint snapshot", place_.device_bytes - memory_.total()));
  return root;
}

}  // namespace

int largest_place(const LayoutPlan& layout) {
  const auto most = std::max_element(layout.places.begin(), layout.places.end(),
                                     [](const PipelinePlace& a, const PipelinePlace& b) {
                                       return a.device_bytes < b.device_bytes;
                                     });
  return static_cast<int>(most - layout.places.begin());
}

PlanNode memory_tree(const PipelinePlace& place, const Workload& work, const StepOps* ops) {
  return MemoryTree(place, work, ops).tree();
}

}  // namespace trireme
