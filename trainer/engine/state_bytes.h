#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

class ModelState;

// Bytes of a parameter's weights, master weights and gradients on a rank. Blocks' parameters of one
// name count as one: "mlp.down" of all blocks.
struct ParamBytes {
  std::string unit;  // "embedding", "blocks", "experts", "head", ...
  std::string name;  // within the unit
  std::size_t weights = 0, masters = 0, gradients = 0;
};

// Where the arenas of a rank's model state go, without padding, constant tables and buffers.
struct StateBytes {
  std::vector<ParamBytes> params;                              // in order of declaration
  std::size_t codes = 0;                                       // float8 codes of weights
  std::vector<std::pair<std::string, std::size_t>> optimizer;  // by state, padding included
};
StateBytes state_bytes(const ModelState& model);

}  // namespace trireme
