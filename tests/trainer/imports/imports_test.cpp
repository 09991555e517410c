#include <gtest/gtest.h>

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/reader.h"
#include "trainer/imports/translation.h"

namespace trireme {
namespace {

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
  EXPECT_EQ(config.activation_checkpoint.mode, "selective");
  EXPECT_TRUE(config.checkpoint.async);
  EXPECT_TRUE(leaves(got, "profiling.enable_profiling = true"));
  EXPECT_TRUE(leaves(got, "training.compile = true"));
  EXPECT_TRUE(leaves(got, "activation_checkpoint.selective_ac_option = op"));
  EXPECT_EQ(got.left().size(), 3U);
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
}

TEST(Imports, a_ramp_of_megatrons_batch_by_samples) {
  const auto steps = [](const std::string& ramp) {
    const Translation got(read_foreign_config(
        "pretrain.sh",
        "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
        "--max-position-embeddings 128 --vocab-size 300 --micro-batch-size 2 --train-iters 500 "
        "--lr 1e-3 --global-batch-size 16 --rampup-batch-size " +
            ramp));
    return std::pair(got.toml(), leaves(got, "rampup-batch-size"));
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
  EXPECT_TRUE(leaves(got, "data_stages.0.data.dataset.hf_dataset_or_datasets = a b"));
  EXPECT_TRUE(leaves(got, "checkpoints.save_initial_state = false"));
}

TEST(Imports, values_that_are_none_of_ours_are_told_not_taken) {
  const Translation got(read_foreign_config(
      "a.toml", "[training]\nsteps = 1.5\nseq_len = \"long\"\n[optimizer]\nname = \"Adam\"\n"));
  EXPECT_TRUE(leaves(got, "training.steps = 1.5 (not a value of training.steps)"));
  EXPECT_TRUE(leaves(got, "training.seq_len = long"));
  EXPECT_TRUE(leaves(got, "optimizer.name = Adam"));
  EXPECT_NE(got.toml().find("# Still to be set: data.train"), std::string::npos);
}

TEST(Imports, what_cannot_be_read_is_a_config_error) {
  for (const auto& [name, text] :
       {std::pair{"a.toml", "[x\n"}, std::pair{"a.yaml", "a: [1"}, std::pair{"a.yaml", "- 1"},
        std::pair{"a.sh", "echo 'open"}, std::pair{"a.sh", "nothing here"}}) {
    EXPECT_THROW(read_foreign_config(name, text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace trireme
