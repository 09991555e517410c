#pragma once
#include <cstdint>

#include "model/device/device.h"

namespace trireme {

// Amounts of work that suit a kind of device: on the CPU what its caches hold, on a GPU what fills
// all of it and is worth a pass over what it adds to.
struct Tuning {
  // Logits of one chunk of the head. Each chunk reads the vocabulary's weights and reads and writes
  // their whole float32 gradient, so a GPU takes as many tokens at once as 2 GiB of logits hold.
  std::int64_t head_logits;
  // Tokens of a chunk of an MLP that is recomputed, at most, on a rank that has its whole width: a
  // multiple of 128. Each chunk reads and writes the float32 gradients of all the MLP's weights.
  std::int64_t mlp_rows;
  // The vocabulary is padded in memory to a multiple of this: tensor cores need aligned rows of
  // logits, and cuBLASLt's fast kernels whole tiles of 128.
  std::int64_t vocab_tile;
  // Elements of an optimizer's update that pass through workspace at a time.
  std::int64_t update_elements;
  // Rows whose contribution to a parameter's gradient is summed at once, by one block: a norm over
  // 8192 tokens has two blocks for each multiprocessor of an H100.
  std::int64_t row_chunk;
};

constexpr Tuning tuning_of(Device device) {
  if (device.is_cuda()) {
    return {.head_logits = std::int64_t{1} << 30,
            .mlp_rows = 8192,
            .vocab_tile = 128,
            .update_elements = std::int64_t{1} << 22,
            .row_chunk = 32};
  }
  return {.head_logits = std::int64_t{1} << 25,
          .mlp_rows = 1024,
          .vocab_tile = 1,
          .update_elements = std::int64_t{1} << 16,
          .row_chunk = 64};
}

}  // namespace trireme
