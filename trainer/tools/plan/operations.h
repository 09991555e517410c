#pragma once
#include <vector>

#include "trainer/tools/plan/workload.h"

namespace trireme {

// One kernel or message of a rank in a micro-batch.
struct Operation {
  enum class Kind : std::uint8_t {
    kProduct,    // a matmul
    kAttention,  // fused attention
    kStream,     // memory-bound
    kMessage,    // collective of the tensor or context axis
  };
  Kind kind = Kind::kStream;
  const char* name = "";
  NumberFormat numbers = NumberFormat::kHalf;
  double count = 1;  // batch size of a batched matmul
  // Matmul sizes. For attention, columns are the keys of a sequence and depth is head_dim.
  double rows = 0, columns = 0, depth = 0;
  double flops = 0;        // of attention, causal
  double extra_flops = 0;  // of attention, scores recomputed in the backward; not counted as useful
  double bytes = 0;        // read and written; of a message, the full tensor
  double result_bytes = 0;  // of a matmul, the output
  Collective collective = Collective::kAllReduce;
  Axis axis = Axis::kTensor;
  bool overlaps_next = false;  // a message that overlaps the next operation
  bool of_weights = false;     // computes a weight gradient

  double product_flops() const { return 2 * count * rows * columns * depth; }
};

// Operations of one rank for one micro-batch, in order.
struct OperationLists {
  std::vector<Operation> forward;     // of a block
  std::vector<Operation> recomputed;  // of a block, before its backward
  std::vector<Operation> backward;    // of a block, input and weight gradients
  std::vector<Operation> embedding, embedding_backward;
  std::vector<Operation> head;  // forward and backward
};

// Operations of the layers in model/layers; a test compares their FLOPs with those the trainer
// counts.
OperationLists operations_of(const Workload& work);

// Parameters on one tensor-parallel rank.
double block_parameters(const Workload& work);
double embedding_parameters(const Workload& work);  // embedding tables
double head_parameters(const Workload& work);  // includes the last stage's copy of a tied table

}  // namespace trireme
