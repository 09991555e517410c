#pragma once
#include <string_view>

#include "tests/trainer/tools/plan/other_trainers.h"

namespace trireme::published {

inline double to_double(std::int64_t n) {
  return static_cast<double>(n);
}

inline bool is_message(const PlannedOp& op, std::string_view group) {
  return op.kind == PlannedOp::Kind::kMessage && op.name == group;
}

inline bool is_of_data(const PlannedOp& op) {
  return is_message(op, "data_shard") || is_message(op, "data_replicate") ||
         is_message(op, "expert_shard") || is_message(op, "expert_replicate");
}

// Written in float32.
inline bool is_gradient(const PlannedOp& op) {
  return op.kind == PlannedOp::Kind::kMatmul && op.result_bytes == 4 * op.rows * op.columns;
}

inline PlannedOp matmul_of(std::size_t element, double rows, double columns, double depth,
                           double result_element) {
  const auto size = static_cast<double>(element);
  return {.kind = PlannedOp::Kind::kMatmul,
          .element = element,
          .rows = rows,
          .columns = columns,
          .depth = depth,
          .flops = 2 * rows * columns * depth,
          .bytes = (rows + columns) * depth * size,
          .result_bytes = rows * columns * result_element};
}

// Of a rank's micro-batch.
inline double tokens_of(const Workload& work) {
  return to_double(work.spec.training.local_batch_size * work.spec.training.seq_len /
                   work.mesh.context);
}

// Appends the ops and messages of another program's attention to the list: scores in memory or not,
// and context ranks, which this trainer's op knows nothing of.
void add_attention(PartOps::List& list, PlannedOp op, const Workload& work,
                   const TrainerTraits& traits);

// A block's forward or backward whose products have operands of a byte or less, which kernels of
// their own quantize.
PartOps::List quantized(const PartOps::List& list, const TrainerTraits& traits, bool is_backward);

// Appends the message of sharded weights or gradients in as many pieces, with the copies between
// its buffer and tensors.
void add_sharded(PartOps::List& list, PlannedOp op, double pieces, const TrainerTraits& traits);

}  // namespace trireme::published
