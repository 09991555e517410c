#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// What one rank holds of something that others hold as well.
struct HeldCopy {
  std::string tensor;  // for display: "layers.0.mlp.up.weight (masters)"
  std::string place;   // which elements of it: equal for copies of one another; no spaces
  std::uint64_t hash = 0;
};

// Which ranks hold other bits than their replicas. Where most copies agree, the others are
// blamed; where there are but two, or no majority, all their holders.
struct ReplicaVerdict {
  std::vector<int> ranks;            // blamed, ascending
  bool by_majority = true;           // false: some of them are blamed for want of a third copy
  std::vector<std::string> tensors;  // that differ, ascending
  std::vector<int> others;           // who hold the first of them too and are not blamed for it
};

// `held`: of each rank. Nothing where all copies agree.
std::optional<ReplicaVerdict> judge_replicas(const std::vector<std::vector<HeldCopy>>& held);

// One line: "rank 2 on node7 holds different bits of layers.0.mlp.up.weight (masters) than the
// replicas on ranks 0 and 1". `hosts`: by rank.
std::string text_of(const ReplicaVerdict& verdict, const std::vector<std::string>& hosts);

// A list of copies in a message, and back.
std::string copies_text(const std::vector<HeldCopy>& copies);
std::vector<HeldCopy> parse_copies(const std::string& text);

}  // namespace trireme
