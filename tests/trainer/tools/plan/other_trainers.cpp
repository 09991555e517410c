#include "tests/trainer/tools/plan/other_trainers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "model/base/error.h"
#include "model/device/imagined.h"
#include "tests/trainer/tools/plan/other_ops.h"

namespace trireme::published {
namespace {

using Kind = PlannedOp::Kind;
using List = PartOps::List;

// These programs' products write their results alone: the next norm adds the residual stream, or,
// at a block's end, a kernel of its own. Other products that add are of weight gradients.
List with_separate_sums(const List& list, bool is_backward) {
  List made;
  double added = 0;
  for (PlannedOp op : list) {
    const std::string_view name = op.name;
    if (op.adds && (!is_backward || op.recomputes)) {
      op.result_bytes /= 2;
      added += op.result_bytes;
    } else if (name == "rms_norm" || name == "layer_norm") {
      op.bytes += 2 * std::exchange(added, 0);
    }
    made.push_back(op);
  }
  if (added > 0) made.push_back({.name = "add", .element = 2, .bytes = 3 * added});
  return made;
}

class OtherTrainer {
 public:
  OtherTrainer(const Workload& work, const TrainerTraits& traits) : work_(work), traits_(traits) {}
  StepOps ops() const;

 private:
  StepOps recorded() const;
  List adapted(const List& list) const;
  double more_passes(const PlannedOp& op) const;
  void message(List& list, PlannedOp op) const;
  List every_second(const List& forward) const;
  List recomputed(const PartOps& block) const;
  List overlapped(List list) const;
  List with_whole_head(const List& list) const;
  double tokens() const { return tokens_of(work_); }
  // Passes over the gradients that a rank updates, by which this trainer finds their norm.
  double norm_passes() const {
    const bool are_whole = traits_.sums_whole_gradients && work_.spec.parallelism.zero > 0;
    return traits_.norm_traffic / sizeof(float) *
           (are_whole ? to_double(work_.mesh.data_shard * work_.mesh.context) : 1);
  }
  bool hides_all() const { return traits_.tensor_overlap == TensorOverlap::kAll; }

  const Workload& work_;
  const TrainerTraits& traits_;
};

// Of this trainer with as many tokens, of one micro-batch.
StepOps OtherTrainer::recorded() const {
  EngineSpec spec = work_.spec;
  MeshShape mesh = work_.mesh;
  spec.training.seq_len /= mesh.context;
  mesh.data_shard *= mesh.context;
  mesh.context = 1;
  spec.micro_batches = 1;
  if (traits_.recomputed == Recomputed::kNormsAndActivations ||
      traits_.recomputed == Recomputed::kFeedForward) {
    spec.activation_checkpoint.mode = Recompute::kSelective;
  }
  if (traits_.recomputed == Recomputed::kAll && !traits_.whole_recompute) {
    spec.activation_checkpoint.mode = Recompute::kFull;
  }
  if (traits_.quantizing_reads > 0) spec.precision = MatmulPrecision::kNative;
  StepOps ops = record_step(spec, mesh, imagined_gpu());
  for (PartOps& kind : ops.kinds) {
    kind.forward = with_separate_sums(kind.forward, false);
    kind.backward = with_separate_sums(kind.backward, true);
  }
  return ops;
}

List OtherTrainer::adapted(const List& list) const {
  List made;
  for (PlannedOp op : list) {
    // Part of the kernels before it, by the compiler or by Transformer Engine's norms and SwiGLU.
    if (traits_.quantizing_reads == 0) {
      if (op.name == std::string_view("quantize")) continue;
      if (op.kind == Kind::kMatmul && op.element == 1) op.bytes *= 2;
    }
    if (op.kind == Kind::kAttention) {
      add_attention(made, op, work_, traits_);
    } else if (op.kind == Kind::kMessage) {
      message(made, op);
    } else {
      if (op.kind == Kind::kMemory) op.bytes *= more_passes(op);
      if (is_gradient(op)) op.result_bytes *= traits_.gradient_traffic / 4;
      made.push_back(op);
    }
  }
  return made;
}

// Memory accesses over those of this trainer's kernel, if every step of the formula is a kernel.
double OtherTrainer::more_passes(const PlannedOp& op) const {
  static const std::map<std::string, double> kOfActivations{
      {"gelu", 1.5}, {"gelu_backward", 5.0 / 3}, {"swiglu", 5.0 / 3}, {"swiglu_backward", 1.6}},
      kOfOthers{{"embedding", 2}, {"embedding_backward", 4.0 / 3}};
  const std::string name = op.name;
  if (const auto found = kOfActivations.find(name); found != kOfActivations.end()) {
    if (traits_.fused_activations) return 1;
    // One kernel for max(x, 0), another for its square.
    if (work_.spec.model.activation == Activation::kRelu2) return 2;
    return traits_.splits_gate && name == "swiglu_backward" ? 13.0 / 5 : found->second;
  }
  if (traits_.fused && traits_.fused_residuals) return 1;
  const double outside =
      tokens() / (work_.spec.parallelism.sequence ? to_double(work_.mesh.tensor) : 1);
  const double pass =
      outside * to_double(work_.spec.model.hidden_size) * static_cast<double>(op.element);
  if (traits_.fused) {
    // What is added is read again, and a gradient also written.
    if (name == "rms_norm") return op.bytes > 2 * pass ? 5.0 / 4 : 1;
    return name == "rms_norm_backward" ? 1 + 2 * pass / op.bytes : 1;
  }
  if (name == "rms_norm" || name == "layer_norm") {
    // a residual is added by a kernel of its own
    return pass * (traits_.unfused.norm_forward + (op.bytes > 2 * pass ? 3 : 0)) / op.bytes;
  }
  if (name == "rms_norm_backward" || name == "layer_norm_backward")
    return traits_.unfused.norm_backward;
  if (name == "rope") return traits_.unfused.rope;
  const auto found = kOfOthers.find(name);
  return found == kOfOthers.end() ? 1 : found->second;
}

// In pieces of the programs' size: ZeRO-2 and 3 communicate a layer at a time, ZeRO-0 and 1 a
// bucket at a time.
void OtherTrainer::message(List& list, PlannedOp op) const {
  if (traits_.overlaps_experts && op.collective == Collective::kAllToAll) op.overlaps_next = true;
  const bool is_tied = is_message(op, "pipeline_ends");
  if (!is_of_data(op) && !is_tied) return list.push_back(op);
  const double elements = op.bytes / static_cast<double>(op.element);
  if (op.element == 4) {  // a gradient
    if (traits_.sums_whole_gradients) op.collective = Collective::kAllReduce;
    op.element = static_cast<std::size_t>(traits_.gradient_bytes);
    op.bytes = elements * traits_.gradient_bytes;
  }
  if (is_tied) {
    // Of the whole table: this trainer sums what a rank owns.
    if (work_.spec.parallelism.zero > 0)
      op.bytes *= to_double(work_.mesh.data_shard * work_.mesh.context);
    return list.push_back(op);
  }
  const double pieces = work_.spec.parallelism.zero >= 2
                            ? traits_.messages_per_layer
                            : std::ceil(elements / to_double(work_.spec.bucket));
  add_sharded(list, op, pieces, traits_);
}

// Without the matmuls of which results are saved. Of the seven of a gated block those of keys, of
// attention's output and of the second half of the MLP are not; two of them are parts of larger
// ones here.
List OtherTrainer::every_second(const List& forward) const {
  const ModelConfig& model = work_.spec.model;
  require(model.gated_mlp && model.num_experts == 0,
          "selective checkpointing per op is of blocks with seven matmuls");
  const auto heads = to_double(model.num_attention_heads),
             key_heads = to_double(model.num_key_value_heads);
  const std::array<double, 4> again{key_heads / (heads + 2 * key_heads), 1, 0.5, 0};
  List list;
  std::size_t product = 0;
  for (PlannedOp op : forward) {
    if (op.kind == Kind::kMatmul) {
      const double part = again.at(product++);
      if (part == 0) break;  // nothing after it is needed
      op.bytes -= (1 - part) * op.columns * op.depth * static_cast<double>(op.element);
      op.columns *= part;
      op.flops *= part;
      op.result_bytes *= part;
    } else if (op.kind != Kind::kMemory) {
      continue;
    }
    list.push_back(op);
  }
  return list;
}

// What the backward of a block computes again and this trainer's does not.
List OtherTrainer::recomputed(const PartOps& block) const {
  if (traits_.recomputed == Recomputed::kPerOp) return adapted(every_second(block.forward));
  List list;
  const bool whole = traits_.recomputed == Recomputed::kAll && traits_.whole_recompute;
  const double first_of_mlp = to_double(work_.spec.model.intermediate_size / work_.mesh.tensor *
                                        (work_.spec.model.gated_mlp ? 2 : 1));
  for (const PlannedOp& op : block.forward) {
    const bool again =
        whole ? !is_of_data(op)
        : traits_.recomputed == Recomputed::kFeedForward
            ? op.kind == Kind::kMatmul && op.columns == first_of_mlp
            : traits_.recomputed == Recomputed::kAttention && op.kind == Kind::kAttention;
    if (again) list.push_back(op);
  }
  return overlapped(adapted(list));
}

List OtherTrainer::overlapped(List list) const {
  if (traits_.tensor_overlap == TensorOverlap::kNone) return list;
  const auto is_matmul = [&](std::size_t i) {
    return i < list.size() && list[i].kind == Kind::kMatmul;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    PlannedOp& op = list[i];
    if (!is_message(op, "tensor")) continue;
    const bool gathers = op.collective == Collective::kAllGather;
    if (!gathers && is_matmul(i + 1)) {
      // Between input and weight gradients. The input is gathered again for the latter alone.
      op.overlaps_next = true;
      if (i < 2 || !is_message(list[i - 2], "tensor")) continue;
      list[i - 2].overlaps_next = true;
      std::swap(list[i - 2], list[i - 1]);
    } else if (hides_all() && gathers) {
      op.overlaps_next = is_matmul(i + 1);
    } else if (hides_all() && i > 0 && is_matmul(i - 1)) {
      op.overlaps_next = true;
      std::swap(list[i - 1], list[i]);
    }
  }
  return list;
}

// The head's chunks as one, without the sums that a sharded vocabulary needs.
List OtherTrainer::with_whole_head(const List& list) const {
  const auto is_matmul = [](const PlannedOp& op) { return op.kind == Kind::kMatmul; };
  const auto first = std::find_if(list.begin(), list.end(), is_matmul);
  if (first == list.end()) return list;
  List whole(list.begin(), first);
  if (hides_all() && is_message(whole.back(), "tensor")) whole.back().overlaps_next = true;
  const auto element = static_cast<double>(first->element);
  const double vocab = first->columns, hidden = first->depth;
  whole.push_back(matmul_of(first->element, tokens(), vocab, hidden, element));
  whole.push_back(
      {.name = "loss",
       .element = first->element,
       .bytes = (traits_.fused_loss ? 3 : traits_.loss_passes) * tokens() * vocab * element});
  whole.push_back(matmul_of(first->element, tokens(), hidden, vocab, element));
  whole.push_back(matmul_of(first->element, vocab, hidden, tokens(), traits_.gradient_traffic));
  const auto last = std::find_if(list.rbegin(), list.rend(), is_matmul);
  whole.insert(whole.end(), last.base(), list.end());
  return whole;
}

StepOps OtherTrainer::ops() const {
  StepOps ops = recorded();
  ops.overlaps_data = traits_.overlaps_data;
  if (traits_.divides_boundary && !work_.spec.parallelism.sequence) {
    ops.boundary_bytes /= to_double(work_.mesh.tensor);
  }
  std::vector<List> again;
  std::vector<PartOps*> parts{&ops.first, &ops.last};
  for (PartOps& block : ops.kinds) {
    block.forward = quantized(block.forward, traits_, false);
    block.backward = quantized(block.backward, traits_, true);
    again.push_back(recomputed(block));
    parts.push_back(&block);
  }
  for (PartOps* part : parts) {
    for (List* list :
         {&part->forward, &part->backward, &part->finish, &part->update, &part->publish}) {
      *list = adapted(*list);
    }
    for (PlannedOp& op : part->update) {
      op.bytes *= op.element == sizeof(float) ? norm_passes() : traits_.update_traffic / 30;
    }
    part->backward_input.clear();  // none of the programs splits backwards
    std::erase_if(part->finish, [](const PlannedOp& op) { return op.kind != Kind::kMessage; });
  }
  for (std::size_t kind = 0; kind < ops.kinds.size(); ++kind) {
    PartOps& block = ops.kinds[kind];
    block.forward = overlapped(block.forward);
    block.backward = overlapped(block.backward);
    if (traits_.sums_replicas_at_once) {
      block.backward.insert(block.backward.end(), block.finish.begin(), block.finish.end());
      block.finish.clear();
    }
    block.backward.insert(block.backward.begin(), again[kind].begin(), again[kind].end());
  }
  if (traits_.waits_for_ends && work_.spec.model.tie_word_embeddings) {
    // The table's gradients are summed before they are reduced, in the backward of its rows.
    List& list = ops.first.forward;
    for (std::size_t i = list.size(); i-- > 1;) {
      if (!is_of_data(list[i]) || list[i].collective == Collective::kAllGather) continue;
      const auto at = list.begin() + static_cast<std::ptrdiff_t>(i);
      list.erase(at - (traits_.reduced_copy > 0 ? 1 : 0), at + 1);
    }
  }
  ops.first.forward = with_whole_head(ops.first.forward);
  ops.last.forward = with_whole_head(ops.last.forward);
  return ops;
}

}  // namespace

StepOps ops_of(const Workload& work, const TrainerTraits& traits) {
  return OtherTrainer(work, traits).ops();
}

}  // namespace trireme::published
