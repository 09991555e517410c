#include <algorithm>

#include "tests/trainer/tools/plan/other_ops.h"

namespace trireme::published {
namespace {

class OtherAttention {
 public:
  OtherAttention(const Workload& work, const TrainerTraits& traits)
      : work_(work), traits_(traits) {}
  void add(PartOps::List& list, PlannedOp op) const;

 private:
  void stored_scores(PartOps::List& list, const PlannedOp& op) const;
  void sum_of_ring(PartOps::List& list, const PlannedOp& op) const;

  const Workload& work_;
  const TrainerTraits& traits_;
};

// Context ranks exchange keys and values while they compute, or all heads before and after.
void OtherAttention::add(PartOps::List& list, PlannedOp op) const {
  op.name = "attention";  // not our kernels
  const bool backward = op.recomputed_flops > 0;
  const double context = to_double(work_.mesh.context);
  const double passes = backward ? traits_.layout_passes_backward : traits_.layout_passes_forward;
  if (passes > 0) {
    const double transposed = work_.spec.training.local_batch_size > 1 ? traits_.batch_passes : 0;
    list.push_back(
        {.name = "layout",
         .element = op.element,
         .bytes = (passes + transposed) * op.rows * op.depth * static_cast<double>(op.element)});
  }
  if (context > 1) {
    const ModelConfig& model = work_.spec.model;
    const auto width = [&](std::int64_t heads) {
      return to_double(std::max(heads, work_.mesh.tensor) * model.head_dim) *
             static_cast<double>(op.element) / to_double(work_.mesh.tensor);
    };
    const double keys = 2 * width(model.num_key_value_heads),
                 queries = 2 * width(model.num_attention_heads);
    if (traits_.exchanges_heads) {
      list.push_back({.kind = PlannedOp::Kind::kMessage,
                      .name = "context",
                      .element = op.element,
                      .bytes = tokens_of(work_) * (queries + keys),
                      .collective = Collective::kAllToAll});
    } else {
      list.push_back({.kind = PlannedOp::Kind::kMessage,
                      .name = "context",
                      .element = op.element,
                      .bytes = tokens_of(work_) * context * keys * (backward ? 2 : 1),
                      .collective = Collective::kAllGather,
                      .overlaps_next = true});
    }
    op.columns *= context;
    op.flops *= context;
    op.recomputed_flops *= context;
  }
  if (!traits_.flash_attention) return stored_scores(list, op);
  op.flops /= traits_.attention_kernels;
  op.recomputed_flops /= traits_.attention_kernels;
  list.push_back(op);
  if (context > 1 && !traits_.exchanges_heads && !traits_.gathers_keys) sum_of_ring(list, op);
}

// What each step around the ring computes is added to what those before did. Two chunks per rank
// balance the causal mask: of the steps but the first, one half is of all queries or keys and the
// other of half of them.
void OtherAttention::sum_of_ring(PartOps::List& list, const PlannedOp& op) const {
  const ModelConfig& model = work_.spec.model;
  const auto elements = [&](std::int64_t heads) {
    return tokens_of(work_) *
           to_double(std::max(heads, work_.mesh.tensor) / work_.mesh.tensor * model.head_dim);
  };
  const bool backward = op.recomputed_flops > 0;
  const double sums = elements(model.num_attention_heads) +
                      (backward ? 2 * elements(model.num_key_value_heads) : 0);
  const double steps = 1 + 0.75 * (to_double(work_.mesh.context) - 1);
  list.push_back({.name = "ring",
                  .element = op.element,
                  .bytes = 3 * steps * sums * static_cast<double>(op.element)});
}

void OtherAttention::stored_scores(PartOps::List& list, const PlannedOp& op) const {
  const auto element = static_cast<double>(op.element);
  const double seq = op.columns, width = op.depth, heads = op.rows / seq;
  const auto product = [&](double columns, double depth) {
    list.push_back(matmul_of(op.element, op.rows, columns, depth, element));
    list.back().bytes = heads * (seq + columns) * depth * element;
  };
  const auto passes = [&](double count) {
    list.push_back(
        {.name = "scores", .element = op.element, .bytes = count * op.rows * seq * element});
  };
  if (op.recomputed_flops == 0) {
    product(seq, width);
    passes(2);    // softmax
    passes(2.5);  // dropout
    product(width, seq);
    return;
  }
  product(seq, width);
  product(width, seq);
  passes(2.5);
  product(width, seq);
  product(width, seq);
  passes(3);
}

}  // namespace

void add_attention(PartOps::List& list, PlannedOp op, const Workload& work,
                   const TrainerTraits& traits) {
  OtherAttention(work, traits).add(list, op);
}

}  // namespace trireme::published
