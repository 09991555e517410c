#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::checkpoint {

struct Difference {
  std::string item;    // a tensor, "step", "data" ...
  std::string detail;  // description of the difference
};

// Compares two checkpoints logically, whatever layouts wrote them: step, data ledger, scalars and
// digests, then every byte of every tensor, in order of names. Empty if they are identical. Throws
// CheckpointError if one of them is damaged.
std::vector<Difference> compare(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace trireme::checkpoint
