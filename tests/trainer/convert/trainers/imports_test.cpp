#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/reader.h"
#include "trainer/convert/trainers/translation.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// What our own reader makes of the config that comes out.
RunConfig read_back(const Translation& translation,
                    const std::vector<Override>& more = {{"data.train", "[{ path = \"a\" }]"}}) {
  return read_config({.name = "run.toml", .toml = translation.toml(), .folder = "/runs"}, more)
      .config;
}

bool leaves(const Translation& translation, const std::string& start) {
  const auto& left = translation.left();
  const bool is_told = translation.toml().find("#   " + start) != std::string::npos;
  return is_told && std::any_of(left.begin(), left.end(),
                                [&](const std::string& one) { return one.starts_with(start); });
}

bool refuses(const Translation& translation, const std::string& start) {
  const auto& refused = translation.refused();
  return std::any_of(refused.begin(), refused.end(),
                     [&](const std::string& one) { return one.starts_with(start); });
}

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A small Llama as Megatron-LM's arguments, all of which can be said here.
Translation megatron(const std::string& more, const std::set<std::string>& leave_out = {}) {
  return Translation(
      read_foreign_config(
          "pretrain.sh",
          "pretrain_gpt.py --num-layers 2 --hidden-size 64 --ffn-hidden-size 128 "
          "--num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 "
          "--vocab-size 300 --micro-batch-size 2 --lr 1e-3 --swiglu --normalization RMSNorm "
          "--position-embedding-type rope --disable-bias-linear --attention-dropout 0 "
          "--hidden-dropout 0 " +
              more),
      leave_out);
}

TEST(Imports, a_torchtitan_config) {
  const Translation got(read_foreign_config("llama3_8b.toml", R"(
[job]
dump_folder = "./outputs"
[profiling]
enable_profiling = true
[metrics]
log_freq = 10
enable_tensorboard = true
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
lr = 3e-4
[lr_scheduler]
warmup_steps = 100
decay_ratio = 0.25
decay_type = "sqrt"
[training]
local_batch_size = 2
global_batch_size = -1
seq_len = 8192
steps = 1000
compile = true
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 1
[checkpoint]
interval = 500
async_mode = "async"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)"));
  const RunConfig config = read_back(got);
  EXPECT_EQ(config.flavor, "llama3-8b");
  EXPECT_EQ(config.model.num_hidden_layers, 32);
  EXPECT_EQ(config.training.seq_len, 8192);
  EXPECT_EQ(config.training.dtype, "bfloat16");  // its default, not ours
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.lr_scheduler.name, "wsd");
  EXPECT_EQ(config.lr_scheduler.decay_ratio, 0.25);
  EXPECT_EQ(config.lr_scheduler.decay_type, "sqrt");
  EXPECT_EQ(config.lr_scheduler.min_lr_factor, 0);
  EXPECT_EQ(config.parallelism.tensor, 2);
  EXPECT_EQ(config.parallelism.zero, 3);
  EXPECT_EQ(config.activation_checkpoint.mode, Recompute::kSelective);
  EXPECT_TRUE(config.checkpoint.async);
  EXPECT_TRUE(leaves(got, "profiling.enable_profiling = true"));
  EXPECT_TRUE(leaves(got, "training.compile = true"));
  EXPECT_TRUE(leaves(got, "activation_checkpoint.selective_ac_option = op"));
  EXPECT_EQ(got.left().size(), 3U);
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
  EXPECT_NE(got.toml().find("seq_len = 8192                            # training.seq_len"),
            std::string::npos)
      << got.toml();
}

TEST(Imports, a_megatron_script_with_its_variables_and_defaults) {
  const Translation got(read_foreign_config("pretrain.sh", R"(#!/bin/bash
# a comment with --no-option
TP=2
SAVE="/checkpoints/my run"
MODEL_ARGS=(
    --num-layers 24
    --hidden-size 1024 --ffn-hidden-size=2816
    --num-attention-heads 16 --group-query-attention --num-query-groups 4
    --swiglu --normalization RMSNorm --position-embedding-type rope
    --untie-embeddings-and-output-weights --disable-bias-linear
    --attention-dropout 0 --hidden-dropout 0.0 --max-position-embeddings 4096
)
python pretrain_gpt.py --log-throughput ${MODEL_ARGS[@]} --seq-length 2048 \
  --micro-batch-size 2 --global-batch-size 64 --train-iters 5000 --lr 3.0e-4 --min_lr 3.0e-5 \
  --lr-decay-style cosine --lr-decay-iters 5000 --adam-beta2 0.95 --bf16 --vocab-size 32000 \
  --tensor-model-parallel-size $TP --sequence-parallel --use-distributed-optimizer \
  --save "${SAVE}" --data-path 0.3 'data/a' 0.7 data/b --use-flash-attn \
  --split 97,2,1 --eval-interval 500
)"));
  const RunConfig config = read_back(got, {});
  EXPECT_EQ(config.model.model_type, "llama");
  EXPECT_EQ(config.model.intermediate_size, 2816);
  EXPECT_EQ(config.model.num_key_value_heads, 4);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_EQ(config.training.steps, 5000);
  EXPECT_EQ(config.training.dtype, "bfloat16");
  EXPECT_NEAR(config.lr_scheduler.min_lr_factor, 0.1, 1e-12);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.weight_decay, 0.01);  // its default, not ours
  EXPECT_EQ(config.job.seed, 1234);
  EXPECT_EQ(config.data.split, 0.02);
  EXPECT_EQ(config.validation.freq, 500);
  EXPECT_EQ(config.parallelism.tensor, 2);
  EXPECT_TRUE(config.parallelism.sequence);
  EXPECT_EQ(config.parallelism.zero, 1);
  EXPECT_EQ(config.checkpoint.folder, "/checkpoints/my run");
  ASSERT_EQ(config.data.train.size(), 2U);
  EXPECT_EQ(config.data.train[0].path, "/runs/data/a");
  EXPECT_EQ(config.data.train[1].weight, 0.7);
  EXPECT_TRUE(leaves(got, "use-flash-attn"));
  EXPECT_TRUE(leaves(got, "log-throughput"));
  EXPECT_EQ(got.left().size(), 2U) << got.toml();
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
}

TEST(Imports, megatron_options_that_change_the_computation_are_refused_all_at_once) {
  const std::string line =
      "--train-iters 500 --global-batch-size 16 --num-experts 8 --moe-router-topk 2 "
      "--lr-warmup-samples 4000 --hidden-dropout 1.5 --squared-relu --new-option 3 "
      "--log-throughput";
  const Translation got = megatron(line + " --rampup-batch-size 4 4 90");
  EXPECT_TRUE(
      refuses(got, "num-experts = 8 (this mixture-of-experts setting is not supported yet)"));
  EXPECT_TRUE(
      refuses(got, "moe-router-topk = 2 (this mixture-of-experts setting is not supported yet)"));
  EXPECT_TRUE(refuses(got, "lr-warmup-samples = 4000 (counted in samples, but"));
  EXPECT_TRUE(refuses(got, "hidden-dropout = 1.5"));
  EXPECT_TRUE(refuses(got, "squared-relu (unknown key)"));
  EXPECT_TRUE(refuses(got, "new-option = 3 (unknown key)"));
  EXPECT_EQ(got.refused().size(), 6U) << all(got.refused());
  EXPECT_TRUE(leaves(got, "log-throughput"));
  const Translation less = megatron(
      line, {"num-experts", "moe-router-topk", "hidden-dropout", "squared-relu", "new-option"});
  EXPECT_TRUE(less.refused().empty()) << all(less.refused());
  EXPECT_THROW(megatron(line, {"num-expert"}), ConfigError);
  EXPECT_TRUE(
      leaves(less, "num-experts = 8 (ignored by --leave-out: this mixture-of-experts setting"));
}

TEST(Imports, megatron_counts_of_samples_are_steps_where_all_steps_take_as_many) {
  const Translation got = megatron(
      "--global-batch-size 16 --train-samples 8000 --lr-warmup-samples 640 --lr-decay-samples "
      "8000");
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
  EXPECT_EQ(read_back(got).lr_scheduler.warmup_steps, 40);
  EXPECT_EQ(read_back(got).training.tokens, 8000 * 128);
  EXPECT_TRUE(refuses(megatron("--global-batch-size 16 --train-iters 9 --lr-warmup-samples 15"),
                      "lr-warmup-samples = 15 (not a whole number of steps"));
  EXPECT_TRUE(refuses(megatron("--global-batch-size 16 --train-iters 9 --lr-decay-iters 20"),
                      "lr-decay-iters = 20 (the decay always ends with the run)"));
  EXPECT_EQ(
      read_back(megatron("--train-iters 9 --min-lr 1e-4 --lr 3e-4")).lr_scheduler.min_lr_factor,
      1e-4 / 3e-4);  // to the last digit
}

TEST(Imports, megatron_decays_at_the_end_by_the_same_curve) {
  const std::string line =
      "--train-iters 100 --global-batch-size 16 --lr-decay-style WSD --lr-wsd-decay-iters 20";
  const auto schedule = [&](const std::string& style) {
    const Translation got = megatron(line + style);
    EXPECT_TRUE(got.refused().empty()) << all(got.refused());
    return read_back(got).lr_scheduler;
  };
  EXPECT_EQ(schedule("").decay_ratio, 0.2);
  EXPECT_EQ(schedule("").decay_type, "exponential");  // its default, not ours
  EXPECT_EQ(schedule(" --lr-wsd-decay-style minus_sqrt").decay_type, "sqrt");
  EXPECT_EQ(schedule(" --lr-wsd-decay-style cosine").decay_type, "cosine");
}

TEST(Imports, a_megatron_model_that_no_family_here_is_is_refused) {
  const auto of = [](const std::string& words) {
    return Translation(read_foreign_config(
        "a.sh", "x --num-layers 2 --attention-dropout 0 --hidden-dropout 0 " + words));
  };
  EXPECT_TRUE(refuses(of("--swiglu --normalization RMSNorm --position-embedding-type rope"),
                      "disable-bias-linear (not given"));
  EXPECT_TRUE(refuses(of("--position-embedding-type alibi"), "position-embedding-type = alibi"));
  EXPECT_TRUE(refuses(of("--swiglu"), "swiglu (no model family"));
  EXPECT_TRUE(refuses(of("--qk-layernorm"), "qk-layernorm"));
  EXPECT_TRUE(of("").refused().empty()) << all(of("").refused());
}

TEST(Imports, megatron_drops_a_tenth_by_default) {
  const auto dropout = [](const std::string& words) {
    return read_back(megatron("--train-iters 9 " + words)).training.dropout;
  };
  EXPECT_EQ(dropout("--attention-dropout 0.2 --hidden-dropout 0.3"),
            (DropoutRates{.attention = 0.2, .residual = 0.3, .embedding = 0.3}));
  const Translation got(read_foreign_config("a.sh", "x --num-layers 2"));
  EXPECT_THAT(got.toml(), HasSubstr("attention_dropout = 0.1"));
  EXPECT_THAT(got.toml(), HasSubstr("embedding_dropout = 0.1"));
}

TEST(Imports, megatron_arguments_are_split_as_the_shell_would) {
  const Translation got(read_foreign_config("train.sh", R"(
OUT=${1:-"/runs/a"}
SEQ=${SEQ:-4096}
MODEL_ARGS=(
    --num-layers 2 --hidden-size 64 --ffn-hidden-size 128 --num-attention-heads 4
    "--vocab-size 128256"
    '--attention-dropout 0'  # a comment
    "--split '90,10,0'"
    "--hidden-dropout 0" --max-position-embeddings 8192
)
MORE="--swiglu --normalization RMSNorm --position-embedding-type rope   --disable-bias-linear"
MORE+=" --lr 1e-3 --seq-length $SEQ"
torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} $MORE --micro-batch-size 1   --train-iters 10 --save=$OUT --bf16 2>&1 | tee log.txt
echo done
)"));
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
  const RunConfig config = read_back(got);
  EXPECT_EQ(config.model.vocab_size, 128256);
  EXPECT_EQ(config.data.split, 0.1);
  EXPECT_EQ(config.training.seq_len, 4096);
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.training.dtype, "bfloat16");
  EXPECT_EQ(config.model.model_type, "llama");
}

TEST(Imports, what_torchtitan_has_switched_off_stays_off) {
  const std::string text = R"([model]
name = "llama3"
flavor = "8B"
[validation]
enable = false
freq = 500
[checkpoint]
SWITCH = false
interval = 250
[float8]
recipe_name = "rowwise"
)";
  for (const std::string key : {"enable", "enable_checkpoint"}) {
    std::string config = text;
    config.replace(config.find("SWITCH"), 6, key);
    const Translation got(read_foreign_config("a.toml", config));
    EXPECT_TRUE(got.refused().empty()) << all(got.refused());
    EXPECT_EQ(read_back(got).validation.freq, 0);
    EXPECT_EQ(read_back(got).checkpoint.interval, 0);
    EXPECT_TRUE(leaves(got, "validation.freq = 500 (validation is off)"));
    EXPECT_TRUE(leaves(got, "float8.recipe_name = rowwise (no converter uses it)"));
  }
  const Translation on(read_foreign_config(
      "a.toml",
      "[validation]\nenable = true\nfreq = 5\n[checkpoint]\nenable = true\ninterval = 9\n"));
  EXPECT_NE(on.toml().find("freq = 5 "), std::string::npos) << on.toml();
  EXPECT_NE(on.toml().find("interval = 9 "), std::string::npos) << on.toml();
  EXPECT_TRUE(on.refused().empty()) << all(on.refused());
}

TEST(Imports, a_torchtitan_feature_that_is_not_built_is_refused) {
  const Translation got(read_foreign_config("a.toml", R"([model]
name = "deepseek_v3"
flavor = "16B"
converters = ["float8"]
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "ZBVZeroBubble"
[training]
dtype = "bfloat16"
[[more]]
a = 1
)"));
  EXPECT_TRUE(refuses(got, "parallelism.pipeline_parallel_schedule = ZBVZeroBubble"));
  EXPECT_TRUE(refuses(got, "model.converters = float8"));
  EXPECT_TRUE(refuses(got, "model.flavor = 16B (unknown flavor deepseek_v3-16b"));
  EXPECT_TRUE(refuses(got, "training.dtype = bfloat16"));
  EXPECT_TRUE(refuses(got, "more = {...}"));
  const Translation one_stage(read_foreign_config(
      "a.toml", "[parallelism]\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n"));
  EXPECT_TRUE(leaves(one_stage, "parallelism.pipeline_parallel_schedule"));
  EXPECT_TRUE(one_stage.refused().empty());
}

TEST(Imports, a_ramp_of_megatrons_batch_by_samples) {
  const auto steps = [](const std::string& ramp) {
    const Translation got(read_foreign_config(
        "pretrain.sh",
        "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
        "--max-position-embeddings 128 --vocab-size 300 --micro-batch-size 2 --train-iters 500 "
        "--lr 1e-3 --global-batch-size 16 --rampup-batch-size " +
            ramp));
    return std::pair(got.toml(), refuses(got, "rampup-batch-size"));
  };
  // 30 samples a size: 8 steps of 4 make 32, 4 of 8 make 64, 3 of 12 make 100.
  EXPECT_NE(steps("4 4 90").first.find("rampup_batch_size = [[1, 4], [9, 8], [13, 12], [16, 16]]"),
            std::string::npos)
      << steps("4 4 90").first;
  // 2 samples a size: the first step takes the shares of two.
  EXPECT_NE(steps("4 4 6").first.find("rampup_batch_size = [[1, 4], [2, 12], [3, 16]]"),
            std::string::npos)
      << steps("4 4 6").first;
  EXPECT_FALSE(steps("4 4 90").second);
  for (const char* wrong : {"4 5 90", "4 4", "16 4 90", "4 4 ninety 1"}) {
    EXPECT_TRUE(steps(wrong).second) << wrong;
  }
}

TEST(Imports, a_nanotron_config) {
  const Translation got(read_foreign_config("config.yaml", R"(
general: {project: p, run: first try, seed: 42}
checkpoints: {checkpoint_interval: 10, checkpoints_path: checkpoints, save_initial_state: false}
data_stages:
- name: Stable
  start_training_step: 1
  data: {dataset: {hf_dataset_or_datasets: [a, b]}, seed: 42}
model:
  dtype: bfloat16
  model_config: {is_llama_config: true, hidden_size: 128, intermediate_size: 256, vocab_size: 256,
    num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, rms_norm_eps: 1.0e-05,
    max_position_embeddings: 256, tie_word_embeddings: true, hidden_act: silu, rope_scaling: null}
optimizer:
  clip_grad: 1.0
  zero_stage: 0
  weight_decay: 0.01
  learning_rate_scheduler: {learning_rate: 0.0003, lr_decay_steps: 80, lr_decay_style: cosine,
    lr_warmup_steps: 20, lr_warmup_style: linear, min_decay_lr: 3.0e-05}
  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-08}
parallelism: {dp: 2, tp: 2, pp: 1, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER}
tokens: {sequence_length: 128, micro_batch_size: 2, batch_accumulation_per_replica: 4, train_steps: 100}
)"));
  const RunConfig config = read_back(got);
  EXPECT_EQ(config.model.hidden_size, 128);
  EXPECT_EQ(config.training.global_batch_size, 16);
  EXPECT_EQ(config.lr_scheduler.name, "cosine");
  EXPECT_NEAR(config.lr_scheduler.min_lr_factor, 0.1, 1e-12);
  EXPECT_EQ(config.parallelism.data_shard, 2);
  EXPECT_TRUE(config.parallelism.sequence);
  EXPECT_TRUE(leaves(got, "checkpoints.save_initial_state = false"));
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
  const RunConfig as_it_is = read_back(got, {});
  ASSERT_EQ(as_it_is.data.train.size(), 2U);
  EXPECT_EQ(as_it_is.data.train[1].path, "/runs/b");
  EXPECT_TRUE(as_it_is.data.stages.empty());
}

TEST(Imports, the_data_stages_of_nanotron) {
  const std::string head =
      "model: {model_config: {hidden_size: 64, intermediate_size: 128, vocab_size: 256, "
      "num_hidden_layers: 2, num_attention_heads: 4, rms_norm_eps: 1.0e-05}}\n"
      "tokens: {sequence_length: 128, micro_batch_size: 2, train_steps: 1000}\n"
      "data_stages:\n"
      "- {name: Stable, start_training_step: 1, data: {seed: 42, dataset: {dataset_folder: [a, b], "
      "dataset_weights: [0.9, 0.1]}}}\n";
  const Translation got(read_foreign_config(
      "a.yaml", head + "- {name: Decay, start_training_step: 901, data: {num_loading_workers: 1, "
                       "dataset: {hf_dataset_or_datasets: {best: 2, a: 1}}}}\n"));
  EXPECT_TRUE(got.refused().empty()) << all(got.refused());
  const DataConfig data = read_back(got, {}).data;
  ASSERT_EQ(data.train.size(), 2U);
  EXPECT_EQ(data.train[0].weight, 0.9);
  ASSERT_EQ(data.stages.size(), 1U);
  EXPECT_EQ(data.stages[0].from_step, 901);
  ASSERT_EQ(data.stages[0].train.size(), 2U);
  EXPECT_EQ(data.stages[0].train[0].path, "/runs/best");
  EXPECT_EQ(data.stages[0].train[0].weight, 2);
  EXPECT_TRUE(refuses(Translation(read_foreign_config(
                          "a.yaml", head + "- {name: Decay, start_training_step: 9}\n")),
                      "data_stages.1 (has no dataset)"));
  EXPECT_TRUE(
      refuses(Translation(read_foreign_config("a.yaml", head + "moe: {num_experts: 4}\n")),
              "moe.num_experts = 4 (this mixture-of-experts setting is not supported yet)"));
}

TEST(Imports, values_that_are_none_of_ours_are_told_not_taken) {
  const Translation got(read_foreign_config(
      "a.toml", "[training]\nsteps = 1.5\nseq_len = \"long\"\n[optimizer]\nname = \"Adam\"\n"));
  EXPECT_TRUE(refuses(got, "training.steps = 1.5 (invalid value of training.steps)"));
  EXPECT_TRUE(refuses(got, "training.seq_len = long"));
  EXPECT_TRUE(refuses(got, "optimizer.name = Adam"));
  EXPECT_NE(got.toml().find("# Still to be set: data.train"), std::string::npos);
}

TEST(Imports, what_cannot_be_read_is_a_config_error) {
  for (const auto& [name, text] :
       {std::pair{"a.toml", "[x\n"}, std::pair{"a.yaml", "a: [1"}, std::pair{"a.yaml", "- 1"},
        std::pair{"a.sh", "echo 'open"}, std::pair{"a.sh", "nothing here"},
        std::pair{"config_registry.py", "def a(): pass"}}) {
    EXPECT_THROW(read_foreign_config(name, text), ConfigError) << text;
  }
  try {
    read_foreign_config("config_registry.py", "return Trainer.Config(steps=1)");
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("as TOML"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme
