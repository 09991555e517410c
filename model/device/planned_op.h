#pragma once
#include <cstddef>
#include <cstdint>

namespace trireme {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSend,
};

// An op, or a message of a communicator, as a planning Stream records it.
struct PlannedOp {
  enum class Kind : std::uint8_t {
    kMatmul,
    kAttention,
    kMemory,  // bound by memory bandwidth
    kMessage
  };
  Kind kind = Kind::kMemory;
  // Kernels with a measured efficiency in common ("rms_norm", "update"); of a message, its group.
  const char* name = "";
  std::size_t element = 0;  // bytes of an operand's element
  // Of a matmul [rows, depth] x [depth, columns]. Of attention the queries of all heads, the keys
  // of a sequence or of its window, and the width of a head.
  double rows = 0, columns = 0, depth = 0;
  double groups = 1;         // of a matmul: equal groups of its rows, each with a matrix of its own
  bool transpose_a = false;  // of a matmul, as of a weight gradient: over the rows of both operands
  bool adds = false;         // of a matmul: to its result, or to a tensor of that size
  double flops = 0;          // of attention, with the causal mask and the window
  double recomputed_flops = 0;  // of attention, scores recomputed in the backward; not in `flops`
  double bytes = 0;  // read and written, without a matmul's result; of a message, the whole tensor
  double result_bytes = 0;  // of a matmul
  Collective collective = Collective::kAllReduce;
  bool overlaps_next = false;  // a message that the next op overlaps
  bool recomputes = false;     // what the forward did not save
};

}  // namespace trireme
