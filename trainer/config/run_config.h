#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/left_out.h"
#include "model/layers/recompute.h"
#include "model/stage/model_config.h"
#include "parallel/context/context_method.h"
#include "parallel/data/compression/compression_options.h"
#include "parallel/optimizer/lr_schedule.h"
#include "parallel/optimizer/optimizer_options.h"

namespace trireme {

// One struct per section of the config file; a component below the trainer declares its own. Names,
// ranges and help of the keys are in *_options.cpp. Paths are absolute once a config has
// been read; in the file they are relative to its folder.

struct JobConfig {
  std::filesystem::path dump_folder = "outputs";  // the run folder
  std::string description;
  std::int64_t seed = 0;
  std::string device = "auto";  // auto, cpu, cuda
  bool reproducible = false;
  std::int64_t threads = 0;  // 0: all cores available to this process
  bool cuda_graphs = false;

  bool operator==(const JobConfig&) const = default;
};

// A token file (the prefix of a .bin/.idx pair) and its weight in the blend. Weights
// need not add up to 1.
struct DataSource {
  std::filesystem::path path;
  double weight = 1;
  std::string name = {};  // of a validation set, whose sources share it; empty: none
  bool operator==(const DataSource&) const = default;
};

// What changes at a step, and lasts until a later stage changes it again.
struct DataStage {
  std::int64_t from_step = 0;
  std::vector<DataSource> train = {};            // the blend; empty: as before
  std::int64_t seq_len = 0;                      // tokens of a sequence; 0: as before
  std::optional<RopeScaling> rope_scaling = {};  // of the model; none: as before
  bool operator==(const DataStage&) const = default;
};

struct DataConfig {
  std::vector<DataSource> train;
  std::vector<DataStage> stages;        // ascending; before the first, `train`
  std::string order = "trireme";        // or megatron
  std::int64_t order_samples = 0;       // for order "megatron"; 0: samples of the run
  std::vector<DataSource> validation;   // empty: none, unless `split` is set
  bool document_mask = false;           // attention and positions restart at documents
  double split = 0;                     // fraction of the documents used for validation
  std::string tokenizer;                // "bytes" or an absolute path; empty: unknown
  std::vector<data::SampleRange> skip;  // excluded samples of the training order
  bool verify = false;                  // read all token files before the first step

  bool operator==(const DataConfig&) const = default;
};

inline constexpr std::int64_t kMostLossScale = std::int64_t{1} << 24;

// Batch size from a step on.
struct BatchSize {
  std::int64_t from_step = 1;
  std::int64_t sequences = 1;
  bool operator==(const BatchSize&) const = default;
};

struct TrainingConfig {
  std::int64_t seq_len = 1024;
  std::int64_t local_batch_size = 1;         // sequences per micro-batch
  std::int64_t global_batch_size = 0;        // sequences per full step; never 0 once read
  std::vector<BatchSize> rampup_batch_size;  // ascending, from step 1 on; empty: no ramp
  std::int64_t steps = 0;                    // exactly one of steps and tokens is not 0
  std::int64_t tokens = 0;
  double max_norm = 1;  // 0: gradients are not clipped
  double z_loss = 0;    // weight of the squared log-sum-exp of the logits
  double ema = 0;       // decay of the weights' exponential average; 0: none
  DropoutRates dropout = {};
  std::string dtype = "float32";
  bool float8_cache_weights = true;  // quantized, for a step
  // float16 only: a power of two, and good steps until it doubles.
  std::int64_t loss_scale_init = 65536;
  std::int64_t loss_scale_growth_interval = 2000;
  std::string on_nonfinite = "stop";  // stop, skip, rollback
  std::string on_spike = "none";      // none, stop, skip, rollback
  double spike_zscore = 6;
  std::int64_t spike_window = 100;  // steps
  std::int64_t max_skips = 10;      // consecutive skips and rollbacks of the same step

  bool operator==(const TrainingConfig&) const = default;
};

// bos and eos tokens if they differ from those of the tokenizer.
struct SpecialTokensConfig {
  std::int64_t bos_token_id = -1;          // -1: the tokenizer's end of document
  std::vector<std::int64_t> eos_token_id;  // each ends a text; empty: end of document
  bool operator==(const SpecialTokensConfig&) const = default;
};

// Ranks along each axis; their product is the number of ranks.
struct ParallelismConfig {
  std::int64_t tensor = 1;
  bool sequence = false;  // sequence parallelism
  std::int64_t pipeline = 1;
  std::string schedule = "1F1B";  // a name, or the path of a CSV file
  std::int64_t virtual_stages = 1;
  std::vector<std::int64_t> layers_per_stage;  // empty: balanced
  std::int64_t context = 1;
  ContextMethod context_method = ContextMethod::kAllGather;
  std::int64_t context_ulysses = 1;   // adjacent context ranks that exchange tokens for heads first
  std::int64_t expert = 1;            // among the data ranks
  double expert_buffer_factor = 1.5;  // rows that an expert rank takes at once, over its share
  std::int64_t data_replicate = 1;    // data degrees: 0: what the other axes leave
  std::int64_t data_shard = 0;
  std::int64_t zero = 1;  // sharded over data_shard: 0 nothing, 1 optimizer state, 2 also
                          // gradients, 3 also weights
  double bucket_mb = 25;  // gradient bucket, in 2^20 bytes
  CompressionOptions compression = {};  // of gradients, between replicas

  bool operator==(const ParallelismConfig&) const = default;
};

struct ActivationCheckpointConfig {
  Recompute mode = Recompute::kNone;
  bool offload = false;  // saved activations in pinned host memory
  bool operator==(const ActivationCheckpointConfig&) const = default;
};

struct CheckpointConfig {
  std::filesystem::path folder = "checkpoints";  // inside dump_folder unless absolute
  std::int64_t interval = 500;                   // steps; 0: only at the end and on a signal
  std::int64_t keep_latest_k = 3;                // 0: keep all
  std::int64_t keep_every = 0;                   // also keep multiples of this step; 0: none
  bool async = true;                             // written during training
  std::string resume = "auto";                   // auto, none, or a step in digits
  std::string initial_load_path;                 // run folder or checkpoint; empty: none
  double upcycle_noise = 0;                      // of experts, over their initial deviation
  std::vector<std::string> allow_changes;        // keys, or "all"

  bool operator==(const CheckpointConfig&) const = default;
};

struct ElasticConfig {
  std::int64_t max_restarts = 100;
  double restart_wait_s = 5;  // before the first restart without progress; then increasing
  std::int64_t min_data_parallel = 1;
  bool grow = true;
  double heartbeat_timeout_s = 30;
  double stall_timeout_s = 600;       // 0: never
  double load_save_timeout_s = 1800;  // instead, in phases that access storage
  std::filesystem::path memory_folder = "/dev/shm";
  std::int64_t memory_interval = 0;         // steps between memory snapshots; 0: none
  std::int64_t replica_check_interval = 0;  // steps between replica checks; 0: none
  double node_timeout_s = 3;
  bool preflight = false;  // at every start
  bool operator==(const ElasticConfig&) const = default;
};

struct ValidationConfig {
  std::int64_t freq = 0;                     // steps between validations; 0: none
  std::int64_t steps = 10;                   // global batches per validation and set
  std::vector<std::string> multiple_choice;  // .jsonl files of questions; absolute paths
  std::string sample_prompt;                 // empty: start of a document
  std::int64_t sample_freq = 0;              // steps between samples; 0: none
  std::int64_t sample_tokens = 64;           // maximum tokens of a sample
  bool operator==(const ValidationConfig&) const = default;
};

struct MetricsConfig {
  std::int64_t log_freq = 10;  // steps between console lines
  bool enable_tensorboard = false;
  bool trace = false;
  std::int64_t trace_steps = 10;  // after each start
  bool operator==(const MetricsConfig&) const = default;
};

struct RunConfig {
  JobConfig job;
  std::string flavor;  // the preset the model started from; empty: none
  ModelConfig model;   // complete once read: flavor, family defaults and explicit keys
  SpecialTokensConfig special_tokens;  // model.bos_token_id and model.eos_token_id
  DataConfig data;
  TrainingConfig training;
  OptimizerOptions optimizer;
  LrScheduleOptions lr_scheduler;
  ParallelismConfig parallelism;
  ActivationCheckpointConfig activation_checkpoint;
  CheckpointConfig checkpoint;
  ElasticConfig elastic;
  ValidationConfig validation;
  MetricsConfig metrics;

  bool operator==(const RunConfig&) const = default;
};

// Number of ranks: the product of the axes; the minimum if a data degree is open.
std::int64_t world_size(const ParallelismConfig& layout);
// Data-parallel ranks; open degrees count as 1.
std::int64_t data_ranks(const ParallelismConfig& layout);
// Context ranks that exchange tokens for heads, adjacent ones; 1: none.
std::int64_t ulysses_ranks(const ParallelismConfig& layout);
// Tokens of a full step at training.seq_len; see batch_size.h for steps of a ramp, and
// sequence_length.h for those of another length.
std::int64_t tokens_per_step(const RunConfig& config);
// Micro-batches per rank and full step.
std::int64_t micro_batches_per_step(const RunConfig& config);
// Steps of the whole run; `training.tokens` is rounded up to whole steps.
std::int64_t total_steps(const RunConfig& config);
// Number of samples of Megatron-LM's order: data.order_samples, or the samples of the run.
std::int64_t order_samples(const RunConfig& config);
// Folder of the run's checkpoints.
std::filesystem::path checkpoint_folder(const RunConfig& config);

}  // namespace trireme
