#pragma once
#include <cstdint>

#include "model/device/device.h"

namespace trireme {

// Amounts of work that suit a kind of device: on the CPU what its caches hold, on a GPU what fills
// all of it and is worth a pass over what it adds to.
struct Tuning {
  // Logits of one chunk of the head, at most. Each chunk reads the vocabulary's weights and reads
  // and writes their whole float32 gradient, so a GPU takes 8192 tokens of Qwen's 151,936 at once.
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
  // A matrix product adds the residual stream to what it writes, as cuBLASLt does; otherwise the
  // next norm does where it can.
  bool adds_residual_in_product;
};

constexpr Tuning tuning_of(Device device) {
  if (device.is_cuda()) {
    return {.head_logits = std::int64_t{5} << 28,
            .mlp_rows = 8192,
            .vocab_tile = 128,
            .update_elements = std::int64_t{1} << 22,
            .row_chunk = 32,
            .adds_residual_in_product = true};
  }
  return {.head_logits = std::int64_t{1} << 25,
          .mlp_rows = 1024,
          .vocab_tile = 1,
          .update_elements = std::int64_t{1} << 16,
          .row_chunk = 64,
          .adds_residual_in_product = false};
}

}  // namespace trireme
