#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// One rank's copy of replicated state.
struct HeldCopy {
  std::string tensor;  // for display: "layers.0.mlp.up.weight (masters)"
  std::string place;   // its elements, without spaces; equal for replicas
  std::uint64_t hash = 0;
};

// The ranks whose state differs from their replicas. If most copies of a tensor agree, the ranks
// with the others are blamed; without a majority, as with two copies, all ranks that hold one.
struct ReplicaVerdict {
  std::vector<int> ranks;            // blamed, ascending
  bool by_majority = true;           // false: some are blamed because there was no majority
  std::vector<std::string> tensors;  // tensors that differ, ascending
  std::vector<int> others;           // ranks with a good copy of the first of these
};

// `held`: the copies of each rank. Returns nothing if all replicas agree.
std::optional<ReplicaVerdict> judge_replicas(const std::vector<std::vector<HeldCopy>>& held);

// One line: "rank 2 on node7 holds different bits of layers.0.mlp.up.weight (masters) than the
// replicas on ranks 0 and 1". `hosts`: by rank.
std::string text_of(const ReplicaVerdict& verdict, const std::vector<std::string>& hosts);

// Encodes and decodes a list of copies.
std::string copies_text(const std::vector<HeldCopy>& copies);
std::vector<HeldCopy> parse_copies(const std::string& text);

}  // namespace trireme
