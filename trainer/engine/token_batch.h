#pragma once
#include <cstdint>
#include <span>

namespace trireme {

// The tokens of a step or an evaluation in host memory, sequence by sequence: four spans of
// sequences * seq_len. A target of -1 is ignored.
struct TokenBatch {
  std::int64_t sequences = 0, seq_len = 0;
  std::span<std::int32_t> ids, targets, positions, document_start;

  TokenBatch part(std::int64_t first, std::int64_t count) const {
    const auto of = [&](std::span<std::int32_t> all) {
      return all.subspan(static_cast<std::size_t>(first * seq_len),
                         static_cast<std::size_t>(count * seq_len));
    };
    return {count, seq_len, of(ids), of(targets), of(positions), of(document_start)};
  }
};

}  // namespace trireme
