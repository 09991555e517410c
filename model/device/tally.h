#pragma once
#include <vector>

#include "model/device/planned_op.h"

namespace trireme {

// What a planning Stream records. FLOPs are counted from the matrix products issued (a multiply and
// an add are two FLOPs). Causal attention is counted in two ways: without the mask (`full`, the
// convention of torchtitan and of Megatron-LM before 2024), and as computed (`causal`, the
// convention of llm.c and of Megatron-LM today).
struct Tally {
  double matmul = 0;
  double attention_full = 0;
  double attention_causal = 0;
  std::vector<PlannedOp>* ops = nullptr;  // receives all ops and messages; may be null

  void add(const PlannedOp& op) {
    if (op.kind == PlannedOp::Kind::kMatmul) matmul += op.flops;
    if (op.kind == PlannedOp::Kind::kAttention) {
      attention_full += 2 * op.flops;
      attention_causal += op.flops;
    }
    if (ops != nullptr) ops->push_back(op);
  }
};

}  // namespace trireme
