// What the planner prices is what the engine does: one block and the ends of a stage, recorded by
// themselves, make up a whole step.
#include "trainer/engine/step_ops.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "model/base/error.h"
#include "model/device/imagined.h"
#include "tests/trainer/engine/tiny_engine.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

using Kind = PlannedOp::Kind;

EngineSpec unpadded(const char* family, Recompute recompute = Recompute::kNone) {
  EngineSpec spec = test::spec_of(family);
  spec.model.vocab_size = 128;  // no padding, which the head multiplies too
  spec.activation_checkpoint.mode = recompute;
  return spec;
}

std::string names(const PartOps::List& list) {
  std::string text;
  for (const PlannedOp& op : list) text += std::string(text.empty() ? "" : " ") + op.name;
  return text;
}

double step_flops(const EngineSpec& spec, const StepOps& ops) {
  const double micro_batch =
      static_cast<double>(spec.model.num_hidden_layers) * ops.block().flops() + ops.first.flops();
  return static_cast<double>(spec.micro_batches) * micro_batch;
}

TEST(StepOps, have_the_flops_of_the_step) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const Recompute recompute : kRecomputeModes) {
      const EngineSpec spec = unpadded(family, recompute);
      const StepPlan plan = plan_step(spec, RankGroups(), Device{});
      EXPECT_DOUBLE_EQ(step_flops(spec, record_step(spec, {})),
                       plan.issued.matmul + plan.issued.attention_causal)
          << family << static_cast<int>(recompute);
    }
  }
}

// Each op with all numbers of it.
std::string text_of(const PartOps& part) {
  std::string text = say(part.saved_bytes, " saved, ", part.workspace_bytes, " workspace\n");
  for (const PartOps::List* list : {&part.forward, &part.backward, &part.backward_input,
                                    &part.finish, &part.update, &part.publish}) {
    for (const PlannedOp& op : *list) {
      text += say(op.name, " ", static_cast<int>(op.kind), " ", op.element, " ", op.rows, " ",
                  op.columns, " ", op.depth, " ", op.groups, " ", op.adds, " ", op.flops, " ",
                  op.recomputed_flops, " ", op.bytes, " ", op.result_bytes, " ",
                  static_cast<int>(op.collective), " ", op.overlaps_next, op.recomputes, "\n");
    }
    text += "--\n";
  }
  return text;
}

TEST(StepOps, of_a_block_are_those_of_a_step_whatever_was_recorded_before) {
  for (const char* family : {"gpt2", "qwen3", "qwen3_moe"}) {
    for (const std::int64_t zero : {0, 1, 2, 3}) {
      EngineSpec spec = unpadded(family);
      spec.parallelism.zero = zero;
      spec.parallelism.data_shard = spec.parallelism.tensor = 2;
      spec.micro_batches = 2;
      const MeshShape mesh{.data_shard = 2, .tensor = 2};
      const auto recorder = block_recorder(spec, mesh, imagined_gpu(), 0);
      for (const std::int64_t sequences : {1, 40, 2}) {
        for (const Recompute recompute :
             {Recompute::kFull, Recompute::kNone, Recompute::kSelective, Recompute::kNorms}) {
          spec.training.local_batch_size = sequences;
          spec.activation_checkpoint.mode = recompute;
          EXPECT_EQ(text_of(recorder->record(sequences, recompute, Recorded::kAll)),
                    text_of(record_step(spec, mesh, imagined_gpu()).block()))
              << family << zero << " " << sequences << static_cast<int>(recompute);
        }
      }
    }
  }
}

TEST(StepOps, of_an_mlp_in_chunks_have_the_flops_of_all_its_tokens) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = unpadded(family, Recompute::kFull);
    const StepOps at_once = record_step(spec, {});
    const double alone = plan_step(spec, RankGroups(), Device{}).issued.matmul;
    spec.training.local_batch_size *= 30;
    const StepOps chunks = record_step(spec, {});
    EXPECT_GT(chunks.block().forward.size(), at_once.block().forward.size());
    EXPECT_GT(chunks.block().backward.size(), at_once.block().backward.size());
    EXPECT_DOUBLE_EQ(chunks.block().flops(), 30 * at_once.block().flops()) << family;
    EXPECT_DOUBLE_EQ(plan_step(spec, RankGroups(), Device{}).issued.matmul, 30 * alone) << family;
  }
}

TEST(StepOps, of_tensor_ranks_divide_the_work) {
  EngineSpec spec = unpadded("gpt2");
  const double alone = step_flops(spec, record_step(spec, {}));
  spec.parallelism.sequence = true;
  EXPECT_DOUBLE_EQ(4 * step_flops(spec, record_step(spec, {.tensor = 4})), alone);
}

TEST(StepOps, are_those_of_the_layers) {
  const StepOps gpt = record_step(unpadded("gpt2"), {});
  EXPECT_EQ(names(gpt.block().forward),
            "layer_norm matmul attention matmul layer_norm matmul gelu matmul add");
  EXPECT_EQ(names(gpt.block().backward),
            "matmul matmul bias_backward gelu_backward matmul matmul bias_backward "
            "layer_norm_backward matmul matmul bias_backward attention matmul matmul "
            "bias_backward layer_norm_backward");
  EXPECT_EQ(names(gpt.block().backward_input),
            "matmul gelu_backward matmul layer_norm_backward matmul attention matmul "
            "layer_norm_backward");
  EXPECT_EQ(names(gpt.first.forward),
            "embedding embedding layer_norm matmul loss loss loss loss matmul matmul");
  EXPECT_EQ(names(gpt.first.backward), "layer_norm_backward embedding_backward embedding_backward");
  const std::string backward =
      "matmul matmul swiglu_backward matmul matmul rms_norm_backward matmul matmul attention "
      "rope head_norm_backward matmul matmul rms_norm_backward";
  const auto backward_with = [](Recompute recompute) {
    return names(record_step(unpadded("qwen3", recompute), {}).block().backward);
  };
  EXPECT_EQ(names(record_step(unpadded("qwen3"), {}).block().forward),
            "rms_norm matmul head_norm rope attention matmul rms_norm matmul swiglu matmul add");
  EXPECT_EQ(backward_with(Recompute::kNone), backward);
  EXPECT_EQ(backward_with(Recompute::kNorms), "rms_norm rms_norm " + backward);
  EXPECT_EQ(backward_with(Recompute::kSelective), "rms_norm rms_norm swiglu " + backward);
  EXPECT_EQ(backward_with(Recompute::kFull),
            "rms_norm matmul head_norm rope attention matmul rms_norm matmul swiglu " + backward);
}

TEST(StepOps, pass_over_their_tensors) {
  EngineSpec spec = unpadded("qwen3");
  spec.compute = DType::kBf16;
  const PartOps::List forward = record_step(spec, {}).block().forward;
  const double tokens = 40, hidden = 32, inner = 48, query = 32, keys = 16;
  const auto bytes = [&](int index) { return forward[index].bytes / (2 * tokens); };
  EXPECT_EQ(bytes(0), 2 * hidden);              // x, y
  EXPECT_EQ(bytes(2), 2 * (query + 2 * keys));  // queries, keys and values
  EXPECT_EQ(bytes(3), 2 * (query + keys));      // queries and keys, in place
  EXPECT_EQ(bytes(4), 2 * (query + keys));      // queries, keys, values and the result
  EXPECT_EQ(bytes(6), 4 * hidden);              // with the residual and the sum
  EXPECT_EQ(bytes(8), 3 * inner);               // gate, up and the result
  EXPECT_EQ(bytes(10), 3 * hidden);             // both terms and the sum
  const PlannedOp& up = forward[7];
  EXPECT_EQ(up.rows, tokens);
  EXPECT_EQ(up.columns, 2 * inner);
  EXPECT_EQ(up.depth, hidden);
  EXPECT_EQ(up.bytes, 2 * hidden * (tokens + 2 * inner));
  EXPECT_EQ(up.result_bytes, 2 * tokens * 2 * inner);
}

// On GPUs products add the residual stream: of a block's nine passes over its activations for two
// norms and two sums, four are left, and each product reads the stream once.
TEST(StepOps, of_products_that_add_the_residual_stream_have_fewer_passes) {
  EngineSpec spec = unpadded("qwen3");
  spec.compute = DType::kBf16;
  const auto passes = [&](const PartOps::List& list) {
    double bytes = 0;
    for (const PlannedOp& op : list) {
      const std::string_view name = op.name;
      if (name == "rms_norm" || name == "add") bytes += op.bytes;
    }
    return bytes / (2 * 40 * 32);
  };
  const PartOps::List here = record_step(spec, {}).block().forward;
  const PartOps::List there = record_step(spec, {}, imagined_gpu()).block().forward;
  EXPECT_EQ(passes(here), 9);
  EXPECT_EQ(passes(there), 4);
  EXPECT_EQ(names(there),
            "rms_norm matmul head_norm rope own_attention matmul rms_norm matmul swiglu matmul");
  for (const int product : {5, 9}) {
    EXPECT_EQ(there[product].result_bytes, 2 * here[product].result_bytes);
  }
  spec.training.dropout.residual = 0.1;  // comes between
  EXPECT_EQ(passes(record_step(spec, {}, imagined_gpu()).block().forward), 9);
}

double quantized_bytes(const PartOps::List& list) {
  double bytes = 0;
  for (const PlannedOp& op : list) {
    if (op.name == std::string_view("quantize")) bytes += op.bytes;
  }
  return bytes;
}

TEST(StepOps, in_float8_quantize_weights_once_a_step) {
  EngineSpec spec = test::float8_spec_of("qwen3");
  const PartOps kept = record_step(spec, {}).block();
  spec.training.float8_cache_weights = false;
  const PartOps each = record_step(spec, {}).block();
  const double hidden = 32, weights = hidden * (32 + 2 * 16 + 32 + 3 * 48);
  EXPECT_EQ(quantized_bytes(each.forward) - quantized_bytes(kept.forward), 5 * weights);
  EXPECT_EQ(quantized_bytes(each.backward) - quantized_bytes(kept.backward), 5 * weights);
  EXPECT_EQ(quantized_bytes(kept.update), 6 * weights);
  EXPECT_EQ(quantized_bytes(each.update), 0);
}

// Norms and activations collect the largest magnitude of what they write, attention, and the norms'
// backward, do not.
TEST(StepOps, in_float8_measure_what_no_op_measured) {
  EngineSpec spec = test::float8_spec_of("qwen3");
  spec.model.intermediate_size = 64;
  spec.training.float8_cache_weights = false;
  const double tokens = 80, hidden = 32, inner = 64, query = 32, qkv = 64;
  // A byte for a code; reads of two bytes for codes and, if not measured, for the magnitude.
  const double measured = 3, unmeasured = 5, both_measured = 4, both_unmeasured = 6;
  const double weights = unmeasured * (qkv * hidden + query * hidden + 3 * hidden * inner);
  const auto forward_of = [&](double norm) {
    return tokens * (2 * norm * hidden + unmeasured * query + measured * inner) + weights;
  };
  // Gradients in both orientations, then the transposed inputs, with the scale of the forward.
  const double backward =
      tokens * (2 * both_unmeasured * hidden + both_measured * 2 * inner + both_unmeasured * qkv +
                measured * (2 * hidden + query + inner)) +
      weights;
  for (const Recompute recompute : kRecomputeModes) {
    SCOPED_TRACE(kRecomputeNames[static_cast<std::size_t>(recompute)]);
    spec.activation_checkpoint.mode = recompute;
    const PartOps block = record_step(spec, {}).block();
    EXPECT_EQ(quantized_bytes(block.forward), forward_of(measured));
    // Full recomputation stops at the activation, whose codes only the weight gradient reads.
    const double again =
        recompute == Recompute::kFull
            ? forward_of(measured) - tokens * measured * inner - unmeasured * hidden * inner
            : 0;
    EXPECT_EQ(quantized_bytes(block.backward), backward + again);
  }
  spec.activation_checkpoint.mode = Recompute::kNone;
  EXPECT_EQ(names(record_step(spec, {}).block().forward),
            "rms_norm quantize quantize quantize matmul head_norm rope attention quantize quantize "
            "quantize quantize matmul rms_norm quantize quantize quantize matmul swiglu quantize "
            "quantize quantize matmul add");
  // With sequence parallelism a rank's norm writes a part of what its products quantize.
  spec.parallelism.sequence = true;
  const double of_ranks = quantized_bytes(record_step(spec, {.tensor = 2}).block().forward);
  EXPECT_EQ(of_ranks, forward_of(unmeasured) / 2 + tokens * unmeasured * hidden);
}

// The first micro-batch's gradients replace, those of others accumulate.
TEST(StepOps, of_several_micro_batches_accumulate_gradients) {
  EngineSpec spec = unpadded("qwen3");
  const auto gradient_bytes = [&](std::int64_t micro_batches) {
    spec.micro_batches = micro_batches;
    return record_step(spec, {}).block().backward[1].result_bytes;
  };
  EXPECT_EQ(gradient_bytes(1), 4 * 32 * 48);
  EXPECT_EQ(gradient_bytes(2), 2 * gradient_bytes(1));
  EXPECT_EQ(gradient_bytes(7), gradient_bytes(2));
}

TEST(StepOps, of_an_optimizer_are_its_own) {
  EngineSpec spec = unpadded("qwen3");
  EXPECT_EQ(names(record_step(spec, {}).block().update).find("matmul"), std::string::npos);
  spec.optimizer.name = "Muon";
  EXPECT_NE(names(record_step(spec, {}).block().update).find("matmul"), std::string::npos);
}

struct Layout {
  const char* family;
  MeshShape mesh;
  int zero = 1;
  bool sequence = false;
};

EngineSpec spec_in(const Layout& layout) {
  EngineSpec spec = unpadded(layout.family);
  spec.micro_batches = 1;
  spec.bucket = 0;  // no unit shares a bucket
  spec.parallelism.zero = layout.zero;
  spec.parallelism.sequence = layout.sequence;
  spec.parallelism.context = layout.mesh.context;
  spec.parallelism.layers_per_stage =
      layout.mesh.pipeline == 2 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
  return spec;
}

// Bytes that a rank of the group sends.
double sent(const PartOps& part, std::string_view group, double ranks) {
  double bytes = 0;
  for (const PartOps::List* list :
       {&part.forward, &part.backward, &part.finish, &part.update, &part.publish}) {
    for (const PlannedOp& op : *list) {
      if (op.kind != Kind::kMessage || op.name != group) continue;
      const double passes = op.collective == Collective::kAllReduce ? 2 : 1;
      bytes += passes * (ranks - 1) / ranks * op.bytes;
    }
  }
  return bytes;
}

TEST(StepOps, have_the_messages_of_the_step) {
  for (const Layout& layout :
       {Layout{"qwen3", {.tensor = 2}}, Layout{"gpt2", {.tensor = 2}, 1, true},
        Layout{"qwen3", {.data_shard = 2}}, Layout{"gpt2", {.data_shard = 4}},
        Layout{"qwen3", {.data_shard = 2, .context = 2}}, Layout{"gpt2", {.data_shard = 2}, 0},
        Layout{"gpt2", {.data_shard = 2}, 2},
        Layout{"qwen3", {.data_replicate = 2, .data_shard = 2}},
        Layout{"qwen3", {.data_replicate = 2, .data_shard = 2}, 2},
        Layout{"gpt2", {.pipeline = 2, .data_shard = 2, .tensor = 2}},
        Layout{"qwen3", {.pipeline = 2, .tensor = 2}, 1, true}}) {
    const EngineSpec spec = spec_in(layout);
    const StepOps ops = record_step(spec, layout.mesh);
    for (int stage = 0; stage < layout.mesh.pipeline; ++stage) {
      Traffic counted;
      const auto rank = static_cast<int>(stage * layout.mesh.ranks() / layout.mesh.pipeline);
      const RankGroups groups(rank, layout.mesh, spec.parallelism, spec.model, Device{},
                              /*reproducible=*/false, counted);
      const StepPlan plan = plan_step(spec, groups, Device{});
      const auto layers = static_cast<double>(plan.layers_per_stage[stage]);
      const PartOps& end = stage == 0 ? ops.first : ops.last;
      for (const auto& [name, size] : {std::pair{"tensor", groups.tensor->size()},
                                       {"data_shard", groups.shard->size()},
                                       {"data_replicate", groups.replicate->size()},
                                       {"pipeline_ends", groups.embedding_group->size()}}) {
        const auto found = plan.sent.find(name);
        EXPECT_DOUBLE_EQ(layers * sent(ops.block(), name, size) + sent(end, name, size),
                         found == plan.sent.end() ? 0 : found->second.bytes)
            << layout.family << " on " << layout.mesh.ranks() << " ranks, stage " << stage << ": "
            << name;
      }
    }
  }
}

// The gradients of experts' biases are summed for each expert rank's rows by itself.
TEST(StepOps, of_biases_of_divided_experts_read_every_row_once) {
  EngineSpec spec = unpadded("gpt_oss");
  spec.model.num_experts = 8;
  spec.micro_batches = 1;
  const auto read = [&](std::int64_t ranks) {
    const MeshShape mesh{.data_shard = ranks, .expert = ranks};
    spec.parallelism.expert = ranks;
    double bytes = 0;
    for (const PlannedOp& op : record_step(spec, mesh).block().backward) {
      if (op.name == std::string_view("grouped_bias_backward")) bytes += op.bytes;
    }
    return bytes;
  };
  EXPECT_GT(read(1), 0);
  // But the sums of a rank's experts, which are small.
  EXPECT_NEAR(read(2) / read(1), 1, 0.05);
  EXPECT_NEAR(read(8) / read(1), 1, 0.05);
}

// What a block saves is what the planner keeps for it on the host, and its state is what the
// planner keeps there of the optimizer.
TEST(StepOps, know_what_is_offloaded) {
  EngineSpec spec = spec_in({"qwen3", {}});
  spec.activation_checkpoint.offload = spec.optimizer.offload = true;
  const StepOps ops = record_step(spec, {}, imagined_gpu());
  const MemoryPlan memory = plan_step(spec, RankGroups(), imagined_gpu()).memory;
  ASSERT_EQ(memory.in_flight.size(), 1U);
  const auto layers = static_cast<double>(spec.model.num_hidden_layers);
  EXPECT_EQ(layers * ops.block().saved_bytes,
            static_cast<double>(memory.in_flight.front().on_host));
  const auto state = static_cast<double>(memory.host.masters + memory.host.optimizer);
  EXPECT_NEAR(layers * ops.block().state_bytes + ops.first.state_bytes, state, 0.02 * state);
  EXPECT_EQ(ops.block().averaged_bytes, 0);
  // The average is of float32 masters, if there are any.
  spec.training.ema = 0.9;
  spec.compute = DType::kBf16;
  EXPECT_GT(record_step(spec, {}, imagined_gpu()).block().averaged_bytes, 0);
}

TEST(StepOps, gather_the_weights_of_zero_3_for_each_pass) {
  const StepOps ops = record_step(spec_in({"qwen3", {.data_shard = 2}, 3}), {.data_shard = 2});
  const auto messages = [&](const PartOps::List& list) {
    std::string text;
    for (const PlannedOp& op : list) {
      if (op.kind == Kind::kMessage) {
        text += op.collective == Collective::kAllGather ? "gather " : "reduce ";
      }
    }
    return text;
  };
  EXPECT_EQ(messages(ops.block().forward), "gather ");
  EXPECT_EQ(messages(ops.block().backward), "gather reduce ");
  EXPECT_EQ(messages(ops.block().publish), "");
}

}  // namespace
}  // namespace trireme
