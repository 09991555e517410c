#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "parallel/data/compression/compression_options.h"
#include "trainer/config/flavors.h"
#include "trainer/config/option.h"

namespace trireme {
namespace {

// How a table entry names the member behind its key.
#define TRIREME_MEMBER(member) [](RunConfig& c) -> Slot { return &c.member; }

constexpr double kMaxInteger = 9223372036854774784.0;  // the largest double an int64 holds

Range at_least(double least) {
  return {.least = least, .most = kMaxInteger};
}
Range between(double least, double most) {
  return {.least = least, .most = most};
}
Range from_up_to(double least, double most) {
  return {least, most, false, true};
}
Range above(double least) {
  return {.least = least, .above = true};
}

bool is_rotary(const RunConfig& c) {
  return c.model.position == PositionKind::kRotary;
}
bool has_rms_norm(const RunConfig& c) {
  return c.model.norm == NormKind::kRmsNorm;
}
bool has_layer_norm(const RunConfig& c) {
  return c.model.norm == NormKind::kLayerNorm;
}

bool is_optimizer(const RunConfig& c, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), c.optimizer.name) != names.end();
}
bool has_betas(const RunConfig& c) {
  return is_optimizer(c, {"AdamW", "Lion", "LAMB", "Muon"});
}
bool has_eps(const RunConfig& c) {
  return is_optimizer(c, {"AdamW", "LAMB", "Muon"});
}
bool has_momentum(const RunConfig& c) {
  return is_optimizer(c, {"SGD", "LARS", "Muon"});
}
bool may_be_nesterov(const RunConfig& c) {
  return is_optimizer(c, {"SGD", "Muon"});
}
bool is_lars(const RunConfig& c) {
  return is_optimizer(c, {"LARS"});
}
bool is_muon(const RunConfig& c) {
  return is_optimizer(c, {"Muon"});
}
bool is_float16(const RunConfig& c) {
  return c.training.dtype == "float16";
}
bool publishes_bfloat16(const RunConfig& c) {
  return c.training.dtype == "bfloat16" || c.training.dtype == "float8";
}

using Options = std::vector<Option>;

void add_job(Options& to) {
  to.push_back({.key = "job.dump_folder",
                .slot = TRIREME_MEMBER(job.dump_folder),
                .help = "the run folder: config, metrics, events, checkpoints"});
  to.push_back({.key = "job.description",
                .slot = TRIREME_MEMBER(job.description),
                .help = "a line for people, shown in logs and reports"});
  to.push_back({.key = "job.seed",
                .slot = TRIREME_MEMBER(job.seed),
                .help = "of the initial weights and the order of the data",
                .effect = Effect::kData,
                .range = at_least(0)});
  to.push_back(
      {.key = "job.device",
       .slot = TRIREME_MEMBER(job.device),
       .help = "where to compute; auto takes a GPU when the build and the machine have one",
       .effect = Effect::kLayout,
       .allowed = {"auto", "cpu", "cuda"}});
  to.push_back({.key = "job.reproducible",
                .slot = TRIREME_MEMBER(job.reproducible),
                .help = "bits that do not depend on data ranks, stages, zero or buckets either",
                .effect = Effect::kNumerics});
  to.push_back({.key = "job.threads",
                .slot = TRIREME_MEMBER(job.threads),
                .help = "threads of a rank; 0: every core the process may use",
                .effect = Effect::kPerformance,
                .range = between(0, 4096)});
  to.push_back({.key = "job.cuda_graphs",
                .slot = TRIREME_MEMBER(job.cuda_graphs),
                .help = "record forward and backward once and replay them, in runs of one GPU",
                .effect = Effect::kPerformance});
}

void add_model_shape(Options& to) {
  to.push_back({.key = "model.vocab_size",
                .slot = TRIREME_MEMBER(model.vocab_size),
                .help = "rows of the embedding; every token id is below it",
                .effect = Effect::kNumerics,
                .range = between(1, 2147483647),
                .default_text = "required"});
  to.push_back({.key = "model.hidden_size",
                .slot = TRIREME_MEMBER(model.hidden_size),
                .help = "width of the residual stream",
                .effect = Effect::kNumerics,
                .range = between(1, 1048576),
                .default_text = "required"});
  to.push_back({.key = "model.intermediate_size",
                .slot = TRIREME_MEMBER(model.intermediate_size),
                .help = "width inside the MLP",
                .effect = Effect::kNumerics,
                .range = between(1, 4194304),
                .default_text = "gpt2: 4 x hidden_size; else required"});
  to.push_back({.key = "model.num_hidden_layers",
                .slot = TRIREME_MEMBER(model.num_hidden_layers),
                .help = "blocks",
                .effect = Effect::kNumerics,
                .range = between(1, 10000),
                .default_text = "required"});
  to.push_back({.key = "model.num_attention_heads",
                .slot = TRIREME_MEMBER(model.num_attention_heads),
                .help = "query heads",
                .effect = Effect::kNumerics,
                .range = between(1, 4096),
                .default_text = "required"});
  to.push_back({.key = "model.num_key_value_heads",
                .slot = TRIREME_MEMBER(model.num_key_value_heads),
                .help = "key and value heads; divides num_attention_heads",
                .effect = Effect::kNumerics,
                .range = between(1, 4096),
                .default_text = "num_attention_heads"});
  to.push_back({.key = "model.head_dim",
                .slot = TRIREME_MEMBER(model.head_dim),
                .help = "width of one head; even with rotary positions",
                .effect = Effect::kNumerics,
                .range = between(1, 4096),
                .default_text = "qwen3: 128; else hidden_size / num_attention_heads"});
  to.push_back({.key = "model.max_position_embeddings",
                .slot = TRIREME_MEMBER(model.max_position_embeddings),
                .help = "longest sequence; learned positions cannot go beyond it",
                .effect = Effect::kNumerics,
                .range = between(1, 16777216),
                .unit = "tokens",
                .default_text = "gpt2: 1024; else training.seq_len"});
}

void add_model_switches(Options& to) {
  to.push_back({.key = "model.rms_norm_eps",
                .slot = TRIREME_MEMBER(model.norm_eps),
                .help = "added to the mean square in RMSNorm",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1, .above = true},
                .default_text = "llama: 1e-5; qwen2, qwen3: 1e-6",
                .applies = has_rms_norm});
  to.push_back({.key = "model.layer_norm_epsilon",
                .slot = TRIREME_MEMBER(model.norm_eps),
                .help = "added to the variance in LayerNorm",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1, .above = true},
                .default_text = "1e-5",
                .applies = has_layer_norm});
  to.push_back({.key = "model.hidden_act",
                .slot = TRIREME_MEMBER(model.activation),
                .help = "gelu_new: GELU (tanh form), two projections; silu: SwiGLU, three",
                .effect = Effect::kNumerics,
                .allowed = {"gelu_new", "silu"},
                .default_text = "gpt2: \"gelu_new\"; else \"silu\""});
  to.push_back({.key = "model.rope_theta",
                .slot = TRIREME_MEMBER(model.rope_theta),
                .help = "base of the rotary frequencies",
                .effect = Effect::kNumerics,
                .range = {.least = 1, .most = 1e12, .above = true},
                .default_text = "llama: 10000; qwen2, qwen3: 1000000",
                .applies = is_rotary});
  to.push_back(
      {.key = "model.rope_scaling",
       .slot = TRIREME_MEMBER(model.rope_scaling),
       .help = "{rope_type = \"default\"} or {rope_type = \"llama3\", factor, low_freq_factor, "
               "high_freq_factor, original_max_position_embeddings}",
       .effect = Effect::kNumerics,
       .default_text = "{rope_type = \"default\"}",
       .applies = is_rotary});
  to.push_back({.key = "model.tie_word_embeddings",
                .slot = TRIREME_MEMBER(model.tie_word_embeddings),
                .help = "the head uses the embedding's weights",
                .effect = Effect::kNumerics,
                .default_text = "gpt2: true; else false"});
  to.push_back({.key = "model.attention_bias",
                .slot = TRIREME_MEMBER(model.attention_bias),
                .help = "bias on query, key, value and (not for qwen2) output projections",
                .effect = Effect::kNumerics,
                .default_text = "gpt2, qwen2: true; else false"});
  to.push_back({.key = "model.mlp_bias",
                .slot = TRIREME_MEMBER(model.mlp_bias),
                .help = "bias on the MLP's projections",
                .effect = Effect::kNumerics,
                .default_text = "gpt2: true; else false"});
  to.push_back({.key = "model.qk_norm",
                .slot = TRIREME_MEMBER(model.qk_norm),
                .help = "RMSNorm over every head's query and key",
                .effect = Effect::kNumerics,
                .default_text = "qwen3: true; else false"});
  to.push_back({.key = "model.initializer_range",
                .slot = TRIREME_MEMBER(model.initializer_range),
                .help = "standard deviation of the initial weights",
                .range = {.least = 0, .most = 10, .above = true}});
  to.push_back({.key = "model.scale_residual_init",
                .slot = TRIREME_MEMBER(model.scale_residual_init),
                .help = "divide the initial output projections by sqrt(2 num_hidden_layers)"});
}

void add_model(Options& to) {
  to.push_back({.key = "model.flavor",
                .slot = TRIREME_MEMBER(flavor),
                .help = "a preset; the keys below override single values of it",
                .allowed = flavor_names()});
  to.push_back({.key = "model.model_type",
                .slot = TRIREME_MEMBER(model.model_type),
                .help = "the family: norm, positions, biases and the defaults of the keys below",
                .effect = Effect::kNumerics,
                .allowed = model_types()});
  add_model_shape(to);
  add_model_switches(to);
}

void add_data(Options& to) {
  to.push_back({.key = "data.train",
                .slot = TRIREME_MEMBER(data.train),
                .help = "token files to train on, as [{path = \"PREFIX\", weight = 1.0}, ...]",
                .effect = Effect::kData,
                .default_text = "required"});
  to.push_back({.key = "data.validation",
                .slot = TRIREME_MEMBER(data.validation),
                .help = "token files to validate on, in the same form"});
  to.push_back({.key = "data.document_mask",
                .slot = TRIREME_MEMBER(data.document_mask),
                .help = "attention stays inside a document and positions restart with it",
                .effect = Effect::kNumerics});
  to.push_back({.key = "data.split",
                .slot = TRIREME_MEMBER(data.split),
                .help = "share of the training documents kept back for validation",
                .effect = Effect::kData,
                .range = from_up_to(0, 1)});
  to.push_back({.key = "data.tokenizer",
                .slot = TRIREME_MEMBER(data.tokenizer),
                .help = "what made the token files: bytes or a SentencePiece .model; for samples "
                        "and bits per byte",
                .allowed = {"bytes"},
                .or_path = true});
  to.push_back({.key = "data.skip",
                .slot = TRIREME_MEMBER(data.skip),
                .help = "ranges of the training order to leave out, as [[first, end], ...]",
                .effect = Effect::kData,
                .range = at_least(0),
                .unit = "samples"});
}

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

void add_optimizer(Options& to) {
  to.push_back({.key = "optimizer.name",
                .slot = TRIREME_MEMBER(optimizer.name),
                .help = "the update rule; LAMB, LARS: rates by layer; Muon: orthogonal updates of "
                        "the blocks' matrices, AdamW for the rest",
                .effect = Effect::kNumerics,
                .allowed = {"AdamW", "SGD", "Lion", "LAMB", "LARS", "Muon"}});
  to.push_back({.key = "optimizer.lr",
                .slot = TRIREME_MEMBER(optimizer.lr),
                .help = "the highest learning rate, at the end of warmup",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 100, .above = true}});
  to.push_back({.key = "optimizer.weight_decay",
                .slot = TRIREME_MEMBER(optimizer.weight_decay),
                .help = "on matrices only; decoupled, but for SGD and LARS part of the gradient",
                .effect = Effect::kNumerics,
                .range = between(0, 100)});
  to.push_back({.key = "optimizer.state_dtype",
                .slot = TRIREME_MEMBER(optimizer.state_dtype),
                .help = "what moments are stored in; bfloat16 is rounded stochastically",
                .effect = Effect::kNumerics,
                .allowed = {"float32", "bfloat16"}});
  to.push_back({.key = "optimizer.stochastic_rounding",
                .slot = TRIREME_MEMBER(optimizer.stochastic_rounding),
                .help = "bfloat16 weights are rounded from their float32 copies up or down by "
                        "chance, right in the mean",
                .effect = Effect::kNumerics,
                .applies = publishes_bfloat16});
  to.push_back({.key = "optimizer.offload",
                .slot = TRIREME_MEMBER(optimizer.offload),
                .help = "a GPU's float32 weights and moments stay in pinned memory of the host; "
                        "the update brings them piece by piece",
                .effect = Effect::kPerformance});
}

void add_moments(Options& to) {
  to.push_back({.key = "optimizer.beta1",
                .slot = TRIREME_MEMBER(optimizer.beta1),
                .help = "AdamW, Lion, LAMB, Muon: decay of the first moment",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1),
                .applies = has_betas});
  to.push_back({.key = "optimizer.beta2",
                .slot = TRIREME_MEMBER(optimizer.beta2),
                .help = "AdamW, LAMB, Muon: decay of the second moment; Lion: of its only one",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1),
                .default_text = "Lion: 0.99; LAMB: 0.999; else 0.95",
                .applies = has_betas});
  to.push_back({.key = "optimizer.eps",
                .slot = TRIREME_MEMBER(optimizer.eps),
                .help = "AdamW, LAMB, Muon: added to the root of the second moment",
                .effect = Effect::kNumerics,
                .range = above(0),
                .default_text = "LAMB: 1e-6; else 1e-8",
                .applies = has_eps});
  to.push_back({.key = "optimizer.momentum",
                .slot = TRIREME_MEMBER(optimizer.momentum),
                .help = "SGD, LARS, Muon: what is kept of the last steps' direction",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1),
                .default_text = "Muon: 0.95; else 0.9",
                .applies = has_momentum});
  to.push_back({.key = "optimizer.nesterov",
                .slot = TRIREME_MEMBER(optimizer.nesterov),
                .help = "SGD, Muon: look ahead by the momentum",
                .effect = Effect::kNumerics,
                .default_text = "Muon: true; else false",
                .applies = may_be_nesterov});
  to.push_back({.key = "optimizer.trust_coefficient",
                .slot = TRIREME_MEMBER(optimizer.trust_coefficient),
                .help = "LARS: a layer's rate over the ratio of its weights' and gradients' norms",
                .effect = Effect::kNumerics,
                .range = above(0),
                .applies = is_lars});
  to.push_back({.key = "optimizer.ns_steps",
                .slot = TRIREME_MEMBER(optimizer.ns_steps),
                .help = "Muon: Newton-Schulz steps that make an update orthogonal",
                .effect = Effect::kNumerics,
                .range = between(1, 100),
                .applies = is_muon});
  to.push_back({.key = "optimizer.adjust_lr",
                .slot = TRIREME_MEMBER(optimizer.adjust_lr),
                .help = "Muon: match_rms_adamw: 0.2 sqrt(longer side), so that AdamW's lr serves; "
                        "original: sqrt(max(1, rows / columns))",
                .effect = Effect::kNumerics,
                .allowed = {"match_rms_adamw", "original"},
                .applies = is_muon});
}

void add_lr_scheduler(Options& to) {
  to.push_back({.key = "lr_scheduler.name",
                .slot = TRIREME_MEMBER(lr_scheduler.name),
                .help = "shape of the learning rate after warmup; wsd: constant, then decay",
                .effect = Effect::kNumerics,
                .allowed = {"cosine", "linear", "constant", "wsd", "inverse_sqrt"}});
  to.push_back({.key = "lr_scheduler.warmup_steps",
                .slot = TRIREME_MEMBER(lr_scheduler.warmup_steps),
                .help = "linear rise from 0 to optimizer.lr",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "lr_scheduler.decay_ratio",
                .slot = TRIREME_MEMBER(lr_scheduler.decay_ratio),
                .help = "wsd: share of all steps spent in the final decay",
                .effect = Effect::kNumerics,
                .range = between(0, 1)});
  to.push_back({.key = "lr_scheduler.decay_type",
                .slot = TRIREME_MEMBER(lr_scheduler.decay_type),
                .help = "wsd: shape of the final decay",
                .effect = Effect::kNumerics,
                .allowed = {"linear", "cosine", "sqrt"}});
  to.push_back(
      {.key = "lr_scheduler.min_lr_factor",
       .slot = TRIREME_MEMBER(lr_scheduler.min_lr_factor),
       .help = "the lowest learning rate after warmup, over optimizer.lr (constant: unused)",
       .effect = Effect::kNumerics,
       .range = between(0, 1)});
}

void add_parallelism(Options& to) {
  const auto axis = [&to](std::string name, Slot (*slot)(RunConfig&), std::string help,
                          std::string alias, double least = 1) {
    to.push_back({.key = "parallelism." + std::move(name),
                  .slot = slot,
                  .help = std::move(help),
                  .effect = Effect::kLayout,
                  .range = between(least, 1048576),
                  .unit = "ranks",
                  .aliases = {std::move(alias)}});
  };
  axis("tensor", TRIREME_MEMBER(parallelism.tensor), "ranks that share each matrix",
       "tensor_parallel_degree");
  to.push_back({.key = "parallelism.sequence",
                .slot = TRIREME_MEMBER(parallelism.sequence),
                .help = "between the shared matrices tensor ranks share the tokens out",
                .effect = Effect::kLayout});
  axis("pipeline", TRIREME_MEMBER(parallelism.pipeline), "ranks that share the layers",
       "pipeline_parallel_degree");
  to.push_back({.key = "parallelism.schedule",
                .slot = TRIREME_MEMBER(parallelism.schedule),
                .help = "order of the pipeline's work, or a CSV file of it",
                .effect = Effect::kPerformance,
                .allowed = {"1F1B", "GPipe", "Interleaved1F1B", "ZBH1"},
                .or_path = true,
                .aliases = {"pipeline_parallel_schedule"}});
  to.push_back({.key = "parallelism.virtual_stages",
                .slot = TRIREME_MEMBER(parallelism.virtual_stages),
                .help = "runs of layers on each pipeline rank (Interleaved1F1B)",
                .effect = Effect::kLayout,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.layers_per_stage",
                .slot = TRIREME_MEMBER(parallelism.layers_per_stage),
                .help = "layers of each pipeline stage in order, as [6, 6, 5, 5]; without it the "
                        "stages are balanced by what they compute",
                .effect = Effect::kLayout});
  axis("context", TRIREME_MEMBER(parallelism.context), "ranks that share a sequence",
       "context_parallel_degree");
  axis("expert", TRIREME_MEMBER(parallelism.expert), "ranks that share the experts",
       "expert_parallel_degree");
  axis("data_replicate", TRIREME_MEMBER(parallelism.data_replicate),
       "ranks that share the batch and own the same state; 0: what the other axes leave",
       "data_parallel_replicate_degree", 0);
  axis("data_shard", TRIREME_MEMBER(parallelism.data_shard),
       "ranks that share the batch and divide the state (zero); 0: what the other axes leave",
       "data_parallel_shard_degree", 0);
  to.push_back({.key = "parallelism.zero",
                .slot = TRIREME_MEMBER(parallelism.zero),
                .help = "what data_shard ranks divide: 0 nothing, 1 the optimizer's state, 2 "
                        "gradients too, 3 weights too",
                .effect = Effect::kLayout,
                .range = between(0, 3)});
  to.push_back({.key = "parallelism.bucket_mb",
                .slot = TRIREME_MEMBER(parallelism.bucket_mb),
                .help = "gradients reduced at once while the backward goes on; with zero = 2 or 3 "
                        "it is a layer's",
                .effect = Effect::kPerformance,
                .range = between(0, 1e6),
                .unit = "MiB"});
  to.push_back({.key = "parallelism.gradient_compression",
                .slot = TRIREME_MEMBER(parallelism.gradient_compression),
                .help = "how data_replicate ranks send each other gradients; what topk, powersgd "
                        "and onebit leave out is added to the next step's",
                .effect = Effect::kNumerics,
                .allowed = {kCompressionNames.begin(), kCompressionNames.end()}});
  to.push_back({.key = "parallelism.compression_fraction",
                .slot = TRIREME_MEMBER(parallelism.compression_fraction),
                .help = "topk: share of the gradients that is sent, the largest",
                .effect = Effect::kNumerics,
                .range = between(1e-6, 1)});
  to.push_back({.key = "parallelism.compression_rank",
                .slot = TRIREME_MEMBER(parallelism.compression_rank),
                .help = "powersgd: rank of what is sent for a matrix",
                .effect = Effect::kNumerics,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.compression_warmup_steps",
                .slot = TRIREME_MEMBER(parallelism.compression_warmup_steps),
                .help = "first steps of the run whose gradients are not compressed",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps"});
}

void add_running(Options& to) {
  to.push_back({.key = "activation_checkpoint.mode",
                .slot = TRIREME_MEMBER(activation_checkpoint.mode),
                .help = "what backward computes again instead of keeping it",
                .effect = Effect::kPerformance,
                .allowed = {"none", "selective", "full"}});
  to.push_back({.key = "activation_checkpoint.offload",
                .slot = TRIREME_MEMBER(activation_checkpoint.offload),
                .help = "what a layer keeps for its backward waits for it in pinned memory of the "
                        "host; a GPU holds three layers'",
                .effect = Effect::kPerformance});
  to.push_back({.key = "checkpoint.folder",
                .slot = TRIREME_MEMBER(checkpoint.folder),
                .help = "inside job.dump_folder unless absolute",
                .stays_relative = true});
  to.push_back({.key = "checkpoint.interval",
                .slot = TRIREME_MEMBER(checkpoint.interval),
                .help = "steps between checkpoints; 0: only at the end and on a signal",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "checkpoint.keep_latest_k",
                .slot = TRIREME_MEMBER(checkpoint.keep_latest_k),
                .help = "older checkpoints are removed, two verified ones stay; 0: keep all",
                .range = between(0, 1e12)});
  to.push_back({.key = "checkpoint.keep_every",
                .slot = TRIREME_MEMBER(checkpoint.keep_every),
                .help = "never remove a step that is a multiple of this; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "checkpoint.async",
                .slot = TRIREME_MEMBER(checkpoint.async),
                .help = "write while training goes on, from a copy of the state in host memory",
                .effect = Effect::kPerformance});
  to.push_back({.key = "checkpoint.resume",
                .slot = TRIREME_MEMBER(checkpoint.resume),
                .help = "auto: from the newest good checkpoint, if any; none: refuse to continue",
                .allowed = {"auto", "none"},
                .or_step = true});
  to.push_back({.key = "checkpoint.initial_load_path",
                .slot = TRIREME_MEMBER(checkpoint.initial_load_path),
                .help = "a run folder or a checkpoint, of any layout, whose weights a new run "
                        "starts from; one that has checkpoints goes on from them",
                .or_path = true});
  to.push_back({.key = "checkpoint.allow_changes",
                .slot = TRIREME_MEMBER(checkpoint.allow_changes),
                .help = "keys that may change numerics in a run that goes on, as "
                        "[\"optimizer.lr\"]; [\"all\"] also goes without the self-check"});
  to.push_back({.key = "elastic.heartbeat_timeout_s",
                .slot = TRIREME_MEMBER(elastic.heartbeat_timeout_s),
                .help = "a rank without a sign of life for so long ends the run with exit code 7",
                .range = between(0.1, 86400),
                .unit = "seconds"});
  to.push_back({.key = "elastic.stall_timeout_s",
                .slot = TRIREME_MEMBER(elastic.stall_timeout_s),
                .help = "so does one that others wait for and that does not move; 0: never",
                .range = between(0, 8640000),
                .unit = "seconds"});
  to.push_back({.key = "elastic.memory_interval",
                .slot = TRIREME_MEMBER(elastic.memory_interval),
                .help =
                    "steps between snapshots in the nodes' memory, from which a killed run goes "
                    "on; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "elastic.memory_folder",
                .slot = TRIREME_MEMBER(elastic.memory_folder),
                .help = "a file system in memory, on every node"});
  to.push_back({.key = "validation.freq",
                .slot = TRIREME_MEMBER(validation.freq),
                .help = "steps between validations; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "validation.steps",
                .slot = TRIREME_MEMBER(validation.steps),
                .help = "batches of global_batch_size in one validation",
                .range = between(1, 1e9)});
  to.push_back({.key = "metrics.log_freq",
                .slot = TRIREME_MEMBER(metrics.log_freq),
                .help = "steps between console lines; metrics.jsonl has every step",
                .range = between(1, 1e12),
                .unit = "steps"});
  to.push_back({.key = "metrics.enable_tensorboard",
                .slot = TRIREME_MEMBER(metrics.enable_tensorboard),
                .help = "also write event files for TensorBoard"});
  to.push_back({.key = "metrics.trace",
                .slot = TRIREME_MEMBER(metrics.trace),
                .help =
                    "write each rank's first steps to trace-RANK.json (for ui.perfetto.dev) and "
                    "report the pipeline's measured bubble"});
  to.push_back({.key = "metrics.trace_steps",
                .slot = TRIREME_MEMBER(metrics.trace_steps),
                .help = "steps traced after each start",
                .range = between(1, 1e6),
                .unit = "steps"});
}

#undef TRIREME_MEMBER

Options all_options() {
  Options all;
  add_job(all);
  add_model(all);
  add_data(all);
  add_training(all);
  add_guard(all);
  add_optimizer(all);
  add_moments(all);
  add_lr_scheduler(all);
  add_parallelism(all);
  add_running(all);
  return all;
}

}  // namespace

bool Option::is_switch() const {
  RunConfig config;
  return std::holds_alternative<bool*>(slot(config));
}

const std::vector<Option>& options() {
  static const Options kAll = all_options();
  return kAll;
}

const Option* find_option(std::string_view key) {
  for (const Option& option : options()) {
    if (option.key == key) return &option;
    for (const std::string& alias : option.aliases) {
      if (option.section() + "." + alias == key) return &option;
    }
  }
  return nullptr;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (names.empty() || names.back() != option.section()) names.push_back(option.section());
  }
  return names;
}

}  // namespace trireme
