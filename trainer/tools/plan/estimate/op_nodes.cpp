#include "trainer/tools/plan/estimate/op_nodes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace trireme {
namespace {

constexpr std::array<const char*, 6> kCollectives{"all_reduce", "reduce_scatter", "all_gather",
                                                  "all_to_all", "broadcast",      "send"};

// Ops and messages of one name in a node of the tree.
class OpGroup {
 public:
  explicit OpGroup(const OpTime& first)
      : node_{.name = first.is_message()
                          ? kCollectives[static_cast<std::size_t>(first.op->collective)]
                          : first.op->name} {}
  const std::string& name() const { return node_.name; }
  void add(const OpTime& one, double times, double pace) {
    node_.count += times;
    node_.flops += times * (one.op->flops + one.op->recomputed_flops);
    node_.bytes += times * (one.is_message() ? one.sent : one.op->bytes + one.op->result_bytes);
    const std::array parts{one.compute, one.memory, one.launch};
    for (std::size_t i = 0; i < parts.size(); ++i) parts_[i] += times * parts[i];
    node_.amount += times * pace * one.seconds();
    if (one.is_message()) node_.bound = "link";
  }
  PlanNode node() const {
    constexpr std::array kBounds{"compute", "memory", "launch"};
    PlanNode node = node_;
    if (!node.bound.empty()) return node;
    node.bound = kBounds[static_cast<std::size_t>(std::max_element(parts_.begin(), parts_.end()) -
                                                  parts_.begin())];
    return node;
  }

 private:
  PlanNode node_;
  std::array<double, 3> parts_{};  // seconds by bound
};

}  // namespace

std::vector<PlanNode> op_nodes(const OpTimes& list, double times, double pace,
                               const std::function<bool(const OpTime&)>& counts) {
  std::vector<OpGroup> groups;
  for (const OpTime& one : list) {
    if (!counts(one)) continue;
    OpGroup group(one);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const OpGroup& other) { return other.name() == group.name(); });
    if (found == groups.end()) found = groups.insert(found, std::move(group));
    found->add(one, times, pace);
  }
  std::vector<PlanNode> nodes;
  for (const OpGroup& group : groups) nodes.push_back(group.node());
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const PlanNode& a, const PlanNode& b) { return a.amount > b.amount; });
  return nodes;
}

}  // namespace trireme
