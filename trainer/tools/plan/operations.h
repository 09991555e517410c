#pragma once
#include <vector>

#include "trainer/tools/plan/workload.h"

namespace trireme {

// One thing that a rank does for a micro-batch.
struct Operation {
  enum class Kind : std::uint8_t {
    kProduct,    // a matrix product
    kAttention,  // fused attention
    kStream,     // whatever only goes through memory
    kMessage,    // of the tensor or context axis
  };
  Kind kind = Kind::kStream;
  const char* name = "";
  Numbers numbers = Numbers::kHalf;
  double count = 1;  // equal products in one
  // Of a product: depth factors in each sum. Of attention: a sequence's keys, a head's width.
  double rows = 0, columns = 0, depth = 0;
  double flops = 0;         // attention: of the keys that are seen, and counted
  double extra_flops = 0;   // attention: scores computed once more, which nobody counts
  double bytes = 0;         // read through memory, and written; of a message, the whole's
  double result_bytes = 0;  // of a product: written, or added to, when it is done
  Collective collective = Collective::kAllReduce;
  Axis axis = Axis::kTensor;
  bool behind_next = false;  // a message that runs beside the operation after it
  bool of_weights = false;   // of the half of a backward that makes the weights' gradients

  double product_flops() const { return 2 * count * rows * columns * depth; }
};

// What one rank does for one micro-batch, in order.
struct OperationLists {
  std::vector<Operation> forward;     // of a block
  std::vector<Operation> recomputed;  // of a block, before its backward
  std::vector<Operation> backward;    // of a block, both halves
  std::vector<Operation> embedding, embedding_backward;
  std::vector<Operation> head;  // with its backward, which follows at once
};

// The layers' own (model/layers): a test holds their FLOPs against those that the trainer counts.
OperationLists operations_of(const Workload& work);

// Parameters that a tensor rank holds.
double block_parameters(const Workload& work);
double embedding_parameters(const Workload& work);  // the table
double head_parameters(const Workload& work);       // tied: the table again, on the last stage

}  // namespace trireme
