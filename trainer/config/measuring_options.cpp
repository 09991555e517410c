#include "trainer/config/option_table.h"

namespace trireme {

void add_validation(Options& to) {
  to.push_back({.key = "validation.freq",
                .slot = TRIREME_MEMBER(validation.freq),
                .help = "steps between validations; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "validation.steps",
                .slot = TRIREME_MEMBER(validation.steps),
                .help = "batches of global_batch_size per validation, for each set",
                .range = between(1, 1e9)});
  to.push_back({.key = "validation.multiple_choice",
                .slot = TRIREME_MEMBER(validation.multiple_choice),
                .help = "HellaSwag-style .jsonl files (ctx or context, endings, label) to score at "
                        "every validation; needs data.tokenizer",
                .or_path = true});
  to.push_back({.key = "validation.sample_prompt",
                .slot = TRIREME_MEMBER(validation.sample_prompt),
                .help = "prompt of the text samples; empty: each sample starts a new document"});
  to.push_back({.key = "validation.sample_freq",
                .slot = TRIREME_MEMBER(validation.sample_freq),
                .help = "steps between text samples; needs the whole model on each rank (no tensor "
                        "or pipeline parallelism, no ZeRO-3); 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "validation.sample_tokens",
                .slot = TRIREME_MEMBER(validation.sample_tokens),
                .help = "maximum number of tokens to generate for a text sample",
                .range = between(1, 1e6),
                .unit = "tokens"});
}

void add_metrics(Options& to) {
  to.push_back({.key = "metrics.log_freq",
                .slot = TRIREME_MEMBER(metrics.log_freq),
                .help =
                    "steps between console lines, and between expert_load in metrics.jsonl, which "
                    "has every step",
                .range = between(1, 1e12),
                .unit = "steps"});
  to.push_back({.key = "metrics.enable_tensorboard",
                .slot = TRIREME_MEMBER(metrics.enable_tensorboard),
                .help = "also write event files for TensorBoard"});
  to.push_back({.key = "metrics.trace",
                .slot = TRIREME_MEMBER(metrics.trace),
                .help = "write a timeline of each rank's first steps to trace-RANK.json (for "
                        "ui.perfetto.dev) and report the measured pipeline bubble"});
  to.push_back({.key = "metrics.trace_steps",
                .slot = TRIREME_MEMBER(metrics.trace_steps),
                .help = "steps to trace after each start",
                .range = between(1, 1e6),
                .unit = "steps"});
}

}  // namespace trireme
