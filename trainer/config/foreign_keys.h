#pragma once
#include <map>
#include <string>
#include <vector>

namespace trireme {

// A key of another trainer with the same meaning as a key of this trainer.
struct ForeignKey {
  std::string theirs, ours;
  std::map<std::string, std::string> words = {};  // value translations; empty: values are equal
  std::string theirs_default = {};                // if it differs from the default of this trainer
};

std::vector<ForeignKey> torchtitan_keys();  // "training.seq_len"
std::vector<ForeignKey> megatron_keys();    // "seq-length"
std::vector<ForeignKey> nanotron_keys();    // "tokens.sequence_length"

}  // namespace trireme
