#pragma once
#include <map>
#include <string>
#include <vector>

namespace trireme {

// A key of another trainer's that says what one of ours says.
struct ForeignKey {
  std::string theirs, ours;
  std::map<std::string, std::string> words = {};  // of theirs for ours; none: the value as it is
  std::string theirs_default = {};                // where the key is not there, and ours is another
};

std::vector<ForeignKey> torchtitan_keys();  // "training.seq_len"
std::vector<ForeignKey> megatron_keys();    // "seq-length"
std::vector<ForeignKey> nanotron_keys();    // "tokens.sequence_length"

}  // namespace trireme
