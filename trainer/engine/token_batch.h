#pragma once
#include <cstdint>
#include <span>

namespace trireme {

// The tokens of one step or one evaluation in host memory, sequence by sequence:
// four spans of sequences * seq_len. Targets of -1 are not predicted.
struct TokenBatch {
  std::int64_t sequences = 0, seq_len = 0;
  std::span<std::int32_t> ids, targets, positions, document_start;
};

}  // namespace trireme
