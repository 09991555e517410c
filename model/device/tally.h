#pragma once
#include <cstdint>

namespace trireme {

// FLOPs of a sequence of ops, counted by a planning Stream from the matrix products issued (a
// multiply and an add are two FLOPs). Causal attention is counted in two ways: without the mask
// (`full`, the convention of torchtitan and of Megatron-LM before 2024), and as computed (`causal`,
// the convention of llm.c and of Megatron-LM today).
struct Tally {
  double matmul = 0;
  double attention_full = 0;
  double attention_causal = 0;
};

}  // namespace trireme
