#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool is_float8(const RunConfig& c) {
  return c.training.dtype == "float8";
}
bool is_float16(const RunConfig& c) {
  return c.training.dtype == "float16";
}

void add_batch(Options& to) {
  to.push_back({.key = "training.seq_len",
                .slot = TRIREME_MEMBER(training.seq_len),
                .help = "sequence length, until data.stages changes it",
                .effect = Effect::kData,
                .range = between(1, 16777216),
                .unit = "tokens"});
  to.push_back({.key = "training.local_batch_size",
                .slot = TRIREME_MEMBER(training.local_batch_size),
                .help = "micro-batch size: sequences per forward and backward of a rank",
                .effect = Effect::kPerformance,
                .range = between(1, 1048576),
                .unit = "sequences"});
  to.push_back(
      {.key = "training.global_batch_size",
       .slot = TRIREME_MEMBER(training.global_batch_size),
       .help = "sequences per step over all ranks; gradients are accumulated over micro-batches",
       .effect = Effect::kData,
       .range = between(1, 1073741824),
       .unit = "sequences",
       .default_text = "local_batch_size"});
  to.push_back({.key = "training.rampup_batch_size",
                .slot = TRIREME_MEMBER(training.rampup_batch_size),
                .help = "batch size ramp-up, as [[1, 64], [1001, 128], ...]: pairs of a step and "
                        "the sequences per step from there, at most global_batch_size; "
                        "learning-rate warmup and decay still count steps",
                .effect = Effect::kData,
                .range = between(1, 1073741824),
                .unit = "sequences"});
}

void add_length(Options& to) {
  to.push_back({.key = "training.steps",
                .slot = TRIREME_MEMBER(training.steps),
                .help = "length of the run in steps (alternative: training.tokens)",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps",
                .default_text = "steps or tokens is required"});
  to.push_back(
      {.key = "training.tokens",
       .slot = TRIREME_MEMBER(training.tokens),
       .help =
           "length of the run in tokens, rounded up to whole steps (alternative: training.steps)",
       .effect = Effect::kNumerics,
       .range = between(0, 1e18),
       .unit = "tokens"});
}

void add_precision(Options& to) {
  to.push_back({.key = "training.z_loss",
                .slot = TRIREME_MEMBER(training.z_loss),
                .help = "weight of the squared log-sum-exp of the logits (z-loss) in the training "
                        "loss, as 1e-4; validation does not have it; 0: none",
                .effect = Effect::kNumerics,
                .range = between(0, 1)});
  const auto dropout = [&](const char* key, Slot (*slot)(RunConfig&), const char* what) {
    to.push_back({.key = key,
                  .slot = slot,
                  .help = say("dropout rate of ", what, "; training only; 0: none"),
                  .effect = Effect::kNumerics,
                  .range = between(0, 0.99)});
  };
  dropout("training.attention_dropout", TRIREME_MEMBER(training.dropout.attention),
          "the attention probabilities");
  dropout("training.residual_dropout", TRIREME_MEMBER(training.dropout.residual),
          "the outputs of attention and MLP, before the residual addition");
  dropout("training.embedding_dropout", TRIREME_MEMBER(training.dropout.embedding),
          "the embedding output");
  to.push_back({.key = "training.max_norm",
                .slot = TRIREME_MEMBER(training.max_norm),
                .help = "clip gradients to this global norm; 0: no clipping",
                .effect = Effect::kNumerics,
                .range = {.least = 0}});
  to.push_back({.key = "training.ema",
                .slot = TRIREME_MEMBER(training.ema),
                .help =
                    "decay of an exponential moving average of the weights, which is saved with "
                    "them for eval, generate and export with --ema; 0: none",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1)});
  to.push_back({.key = "training.dtype",
                .slot = TRIREME_MEMBER(training.dtype),
                .help = "compute dtype; master weights, gradients and moments are float32; float8: "
                        "bfloat16 with the matmuls of the blocks in float8",
                .effect = Effect::kNumerics,
                .allowed = {"float32", "bfloat16", "float16", "float8"}});
  to.push_back({.key = "training.float8_cache_weights",
                .slot = TRIREME_MEMBER(training.float8_cache_weights),
                .help = "float8: quantize weights once per step and cache them, in 2 bytes per "
                        "parameter, instead of quantizing them in every micro-batch; no effect "
                        "with zero = 3",
                .effect = Effect::kPerformance,
                .applies = is_float8});
  to.push_back({.key = "training.loss_scale_init",
                .slot = TRIREME_MEMBER(training.loss_scale_init),
                .help = "float16: initial loss scale, a power of two; halved when gradients "
                        "overflow, and the step is repeated",
                .effect = Effect::kNumerics,
                .range = between(1, static_cast<double>(kMostLossScale)),
                .applies = is_float16});
  to.push_back({.key = "training.loss_scale_growth_interval",
                .slot = TRIREME_MEMBER(training.loss_scale_growth_interval),
                .help = "float16: double the loss scale after this many steps without an overflow",
                .effect = Effect::kNumerics,
                .range = at_least(1),
                .unit = "steps",
                .applies = is_float16});
}

}  // namespace

void add_training(Options& to) {
  add_batch(to);
  add_length(to);
  add_precision(to);
}

void add_guard(Options& to) {
  to.push_back(
      {.key = "training.on_nonfinite",
       .slot = TRIREME_MEMBER(training.on_nonfinite),
       .help = "action when the loss or grad_norm is not finite; stop: end the run; skip: drop the "
               "batch; rollback: return to the newest good checkpoint and skip the samples since",
       .effect = Effect::kNumerics,
       .allowed = {"stop", "skip", "rollback"}});
  to.push_back({.key = "training.on_spike",
                .slot = TRIREME_MEMBER(training.on_spike),
                .help = "action when loss, grad_norm or expert_load_max_over_mean spikes "
                        "(spike_zscore, spike_window); "
                        "none: no spike detection; stop, skip, rollback: as in on_nonfinite",
                .effect = Effect::kNumerics,
                .allowed = {"none", "stop", "skip", "rollback"}});
  to.push_back({.key = "training.spike_zscore",
                .slot = TRIREME_MEMBER(training.spike_zscore),
                .help = "z-score above which a value counts as a spike (standard "
                        "deviation floored at 1 % of the mean)",
                .effect = Effect::kNumerics,
                .range = above(0)});
  to.push_back({.key = "training.spike_window",
                .slot = TRIREME_MEMBER(training.spike_window),
                .help = "number of good steps over which mean and standard deviation are computed; "
                        "no spike is detected before that many",
                .effect = Effect::kNumerics,
                .range = between(2, 1000000),
                .unit = "steps"});
  to.push_back({.key = "training.max_skips",
                .slot = TRIREME_MEMBER(training.max_skips),
                .help = "maximum number of consecutive skips and rollbacks; one more stops the run",
                .effect = Effect::kNumerics,
                .range = at_least(0)});
}

}  // namespace trireme
