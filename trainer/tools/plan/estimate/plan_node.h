#pragma once
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// A node of a tree that says where the time of a step or the memory of a rank goes: the amount of
// an inner node is the sum of its children's.
struct PlanNode {
  std::string name;
  double amount = 0;        // seconds or bytes
  std::string detail = {};  // "12 blocks x 8 micro-batches"
  double count = 0;         // of ops or messages in a step; 0: not counted
  // Of these ops: FLOPs, and bytes read and written. Of messages: bytes that the rank sends.
  double flops = 0, bytes = 0;
  std::string bound = {};  // what limits them: "compute", "memory", "launch" or "link"
  std::vector<PlanNode> children = {};

  // Drops a child that has nothing.
  void add(PlanNode child) {
    const bool is_empty = child.amount == 0 && child.count == 0 && child.bytes == 0;
    if (is_empty && child.children.empty()) return;
    amount += child.amount;
    children.push_back(std::move(child));
  }
};

}  // namespace trireme
