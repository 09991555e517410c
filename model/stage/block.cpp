#include "model/stage/block.h"

#include <cmath>

#include "model/ops/elementwise.h"

namespace trireme {
namespace {

double residual_scale(const ModelConfig& c) {
  const double depth = 2.0 * static_cast<double>(c.num_hidden_layers);
  return c.scale_residual_init ? c.initializer_range / std::sqrt(depth) : c.initializer_range;
}

AttentionSpec attention_spec(const ModelConfig& c, Factors factors) {
  return {.hidden = c.hidden_size,
          .heads = {c.num_attention_heads, c.num_key_value_heads, c.head_dim},
          .qkv_bias = c.attention_bias,
          .output_bias = c.attention_output_bias,
          .qk_norm = c.qk_norm,
          .norm_epsilon = c.norm_eps,
          .init_scale = c.initializer_range,
          .output_init_scale = residual_scale(c),
          .factors = factors};
}

MlpSpec mlp_spec(const ModelConfig& c, Factors factors) {
  return {.hidden = c.hidden_size,
          .intermediate = c.intermediate_size,
          .gated = c.activation == ActivationKind::kSwiGlu,
          .bias = c.mlp_bias,
          .init_scale = c.initializer_range,
          .down_init_scale = residual_scale(c),
          .factors = factors};
}

}  // namespace

Block::Block(ParamStore& params, const std::string& name, const ModelConfig& config,
             Recompute recompute, Factors factors, Seams seams, const Tensor& rope_table)
    : recompute_(recompute),
      region_(seams.region),
      norm1_(params, name + ".attention_norm", config.norm, config.hidden_size, config.norm_eps,
             seams.region),
      attention_(params, name + ".attention", attention_spec(config, factors), seams.region,
                 seams.attention, rope_table),
      norm2_(params, name + ".mlp_norm", config.norm, config.hidden_size, config.norm_eps,
             seams.region),
      mlp_(params, name + ".mlp", mlp_spec(config, factors), seams.region) {}

void Block::forward(Run& run, Tensor y, Tensor x, const Sequence& sequence, Saved& saved) const {
  if (recompute_ == Recompute::kFull) {
    saved.x = x;
    evaluate(run, y, x, sequence);
  } else {
    const Arena::Frame frame(run.scratch);
    compute(run, y, x, sequence, recompute_, saved);
  }
}

void Block::evaluate(Run& run, Tensor y, Tensor x, const Sequence& sequence) const {
  const Arena::Frame keep(run.keep);
  const Arena::Frame scratch(run.scratch);
  Run inner{run.stream, recompute_ == Recompute::kFull ? run.scratch : run.keep, run.scratch};
  Saved unused;
  compute(inner, y, x, sequence, recompute_, unused);
}

void Block::compute(Run& run, Tensor y, Tensor x, const Sequence& sequence, Recompute recompute,
                    Saved& saved) const {
  // If layers recompute for a backward that follows immediately, they save the region's output
  // rather than its input.
  const bool dropped = recompute == Recompute::kSelective ||
                       (recompute == Recompute::kFull && region_.splits_tokens());
  Arena& norms = dropped ? run.scratch : run.keep;
  const Tensor n1 = norm1_.forward(run, norms, x, saved.norm1);
  const Tensor mixed = attention_.forward(run, n1, sequence, recompute, saved.attention);
  const Tensor n2 = norm2_.forward_add(run, norms, x, mixed, saved.norm2);
  ops::add(run.stream, y, saved.norm2.x, mlp_.forward(run, n2, recompute, saved.mlp));
}

void Block::restore(Run& run, const Sequence& sequence, Saved& saved) const {
  if (recompute_ == Recompute::kSelective) {
    attention_.restore_dropped(run, norm1_.again(run, saved.norm1), saved.attention);
    mlp_.restore_dropped(run, norm2_.again(run, saved.norm2), saved.mlp);
  }
  if (recompute_ == Recompute::kFull) {
    Run inner{run.stream, run.lasting(), run.scratch};
    const Tensor n1 = norm1_.forward(inner, inner.keep, saved.x, saved.norm1);
    const Tensor mixed = attention_.forward(inner, n1, sequence, Recompute::kFull, saved.attention);
    const Tensor n2 = norm2_.forward_add(inner, inner.keep, saved.x, mixed, saved.norm2);
    mlp_.restore(inner, n2, saved.mlp);
  }
}

void Block::backward(Run& run, Tensor dx, Tensor dy, const Sequence& sequence, Saved& saved) const {
  const Arena::Frame frame(run.scratch);
  restore(run, sequence, saved);
  const Tensor dmid = run.lasting().take(dy.shape, dy.dtype);
  {
    const Arena::Frame of_mlp(run.scratch);
    norm2_.backward(run, dmid, mlp_.backward(run, dy, saved.mlp), dy, saved.norm2);
  }
  norm1_.backward(run, dx, attention_.backward(run, dmid, sequence, saved.attention), dmid,
                  saved.norm1);
}

void Block::decode(Run& run, Tensor y, Tensor x, Tensor positions, std::int64_t first,
                   const KeyValueCache& cache) const {
  const Arena::Frame frame(run.scratch);
  Run inner{run.stream, run.scratch, run.scratch};
  Saved unused;
  const Tensor n1 = norm1_.forward(inner, run.scratch, x, unused.norm1);
  const Tensor mixed = attention_.decode(inner, n1, positions, first, cache);
  const Tensor n2 = norm2_.forward_add(inner, run.scratch, x, mixed, unused.norm2);
  ops::add(run.stream, y, unused.norm2.x, mlp_.forward(inner, n2, Recompute::kNone, unused.mlp));
}

}  // namespace trireme
