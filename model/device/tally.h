#pragma once
#include <cstdint>

namespace trireme {

// What a sequence of ops would compute, counted by a planning Stream from the
// matrix products issued (one multiply and one add are two operations).
// Causal attention is counted twice over: as if every key were seen (`full`, the
// convention of Megatron-LM before 2024 and torchtitan) and as computed
// (`causal`, the convention of llm.c and Megatron-LM today).
struct Tally {
  double matmul = 0;
  double attention_full = 0;
  double attention_causal = 0;
};

}  // namespace trireme
