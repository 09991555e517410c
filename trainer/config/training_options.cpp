#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool is_float16(const RunConfig& c) {
  return c.training.dtype == "float16";
}

}  // namespace

void add_training(Options& to) {
  to.push_back({.key = "training.seq_len",
                .slot = TRIREME_MEMBER(training.seq_len),
                .help = "length of a sequence",
                .effect = Effect::kData,
                .range = between(1, 16777216),
                .unit = "tokens"});
  to.push_back({.key = "training.local_batch_size",
                .slot = TRIREME_MEMBER(training.local_batch_size),
                .help = "the microbatch: what a rank computes at once",
                .effect = Effect::kPerformance,
                .range = between(1, 1048576),
                .unit = "sequences"});
  to.push_back({.key = "training.global_batch_size",
                .slot = TRIREME_MEMBER(training.global_batch_size),
                .help = "what one step trains on; gradients of the microbatches are accumulated",
                .effect = Effect::kData,
                .range = between(1, 1073741824),
                .unit = "sequences",
                .default_text = "local_batch_size"});
  to.push_back({.key = "training.rampup_batch_size",
                .slot = TRIREME_MEMBER(training.rampup_batch_size),
                .help =
                    "smaller steps at first, as [[1, 64], [1001, 128], ...]: what a step trains "
                    "on from that step on, up to global_batch_size; warmup and decay of the "
                    "learning rate still count steps",
                .effect = Effect::kData,
                .range = between(1, 1073741824),
                .unit = "sequences"});
  to.push_back({.key = "training.steps",
                .slot = TRIREME_MEMBER(training.steps),
                .help = "length of the run; or give tokens",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps",
                .default_text = "steps or tokens is required"});
  to.push_back({.key = "training.tokens",
                .slot = TRIREME_MEMBER(training.tokens),
                .help = "length of the run, rounded up to whole steps",
                .effect = Effect::kNumerics,
                .range = between(0, 1e18),
                .unit = "tokens"});
  to.push_back({.key = "training.max_norm",
                .slot = TRIREME_MEMBER(training.max_norm),
                .help = "clip the gradient to this global norm; 0: do not clip",
                .effect = Effect::kNumerics,
                .range = {.least = 0}});
  to.push_back({.key = "training.dtype",
                .slot = TRIREME_MEMBER(training.dtype),
                .help =
                    "of the computation; weights, gradients and moments stay float32; float8 is "
                    "bfloat16 with the blocks' matrix products in float8",
                .effect = Effect::kNumerics,
                .allowed = {"float32", "bfloat16", "float16", "float8"}});
  to.push_back({.key = "training.loss_scale_init",
                .slot = TRIREME_MEMBER(training.loss_scale_init),
                .help =
                    "what the loss is multiplied by at first for float16's sake, a power of two; "
                    "halved when gradients overflow, whose step is tried again",
                .effect = Effect::kNumerics,
                .range = between(1, static_cast<double>(kMostLossScale)),
                .applies = is_float16});
  to.push_back({.key = "training.loss_scale_growth_interval",
                .slot = TRIREME_MEMBER(training.loss_scale_growth_interval),
                .help = "after so many good steps the loss is scaled twice as much",
                .effect = Effect::kNumerics,
                .range = at_least(1),
                .unit = "steps",
                .applies = is_float16});
}

void add_guard(Options& to) {
  to.push_back({.key = "training.on_nonfinite",
                .slot = TRIREME_MEMBER(training.on_nonfinite),
                .help =
                    "when loss or gradients are not finite: skip leaves the batch out, rollback "
                    "also all since the newest good checkpoint, which the run goes on from",
                .effect = Effect::kNumerics,
                .allowed = {"stop", "skip", "rollback"}});
  to.push_back({.key = "training.on_spike",
                .slot = TRIREME_MEMBER(training.on_spike),
                .help = "the same for a loss or gradient norm far above those of the steps before",
                .effect = Effect::kNumerics,
                .allowed = {"none", "stop", "skip", "rollback"}});
  to.push_back({.key = "training.spike_zscore",
                .slot = TRIREME_MEMBER(training.spike_zscore),
                .help = "what is far: deviations above the mean, one at least 1 % of the mean",
                .effect = Effect::kNumerics,
                .range = above(0)});
  to.push_back(
      {.key = "training.spike_window",
       .slot = TRIREME_MEMBER(training.spike_window),
       .help = "how many good steps make the mean; nothing is far before there are so many",
       .effect = Effect::kNumerics,
       .range = between(2, 1000000),
       .unit = "steps"});
  to.push_back({.key = "training.max_skips",
                .slot = TRIREME_MEMBER(training.max_skips),
                .help = "skips and rollbacks before the run gets past the step; one more stops it",
                .effect = Effect::kNumerics,
                .range = at_least(0)});
}

}  // namespace trireme
