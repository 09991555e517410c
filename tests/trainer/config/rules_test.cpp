#include "trainer/config/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "parallel/optimizer/registry.h"
#include "tests/trainer/config/support.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/option.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kSmall =
    "[data]\n"
    "train = [{ path = \"text\" }]\n"
    "[training]\n"
    "steps = 100\n"
    "[model]\n"
    "vocab_size = 300\n"
    "num_hidden_layers = 2\n";

TEST(rules, a_family_fills_in_what_it_implies) {
  const ModelConfig gpt2 =
      read(kSmall + "model_type = \"gpt2\"\nhidden_size = 64\nnum_attention_heads = 4\n")
          .config.model;
  EXPECT_EQ(gpt2.norm, NormKind::kLayerNorm);
  EXPECT_EQ(gpt2.position, PositionKind::kLearned);
  EXPECT_EQ(gpt2.activation, Activation::kGeluTanh);
  EXPECT_TRUE(gpt2.attention_bias && gpt2.attention_output_bias && gpt2.mlp_bias);
  EXPECT_TRUE(gpt2.tie_word_embeddings);
  EXPECT_EQ(gpt2.intermediate_size, 256);
  EXPECT_EQ(gpt2.max_position_embeddings, 1024);
  EXPECT_EQ(gpt2.head_dim, 16);
  EXPECT_EQ(gpt2.num_key_value_heads, 4);

  const std::string sizes = "hidden_size = 64\nnum_attention_heads = 4\nintermediate_size = 96\n";
  const ModelConfig llama = read(kSmall + sizes).config.model;
  EXPECT_EQ(llama.model_type, "llama");
  EXPECT_EQ(llama.norm_eps, 1e-5);
  EXPECT_EQ(llama.rope_theta, 1e4);
  EXPECT_FALSE(llama.attention_bias || llama.attention_output_bias || llama.qk_norm);
  const ModelConfig qwen2 = read(kSmall + sizes + "model_type = \"qwen2\"\n").config.model;
  EXPECT_EQ(qwen2.norm_eps, 1e-6);
  EXPECT_EQ(qwen2.rope_theta, 1e6);
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  const ModelConfig qwen3 = read(kSmall + sizes + "model_type = \"qwen3\"\n").config.model;
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_FALSE(qwen3.attention_bias);
}

TEST(rules, yarn_needs_the_length_before_the_extension) {
  const std::string llama = kSmall +
                            "hidden_size = 64\nnum_attention_heads = 4\nintermediate_size = 96\n" +
                            "rope_scaling = { rope_type = \"yarn\", factor = 4";
  const std::string needs =
      "needs original_max_position_embeddings, the sequence length before the extension";
  EXPECT_THAT(complaint(llama + " }\n"), HasSubstr(needs));
  EXPECT_EQ(complaint(llama + ", original_max_position_embeddings = 256 }\n"), "");
  EXPECT_EQ(complaint(llama + " }\nmax_position_embeddings = 256\n"), "");
}

TEST(rules, contradictory_groups_of_experts_are_refused) {
  const std::string glm = kSmall +
                          "model_type = \"glm4_moe\"\nhidden_size = 64\nnum_attention_heads = 4\n"
                          "intermediate_size = 96\nmoe_intermediate_size = 36\n";
  const ModelConfig model = read(glm + "n_group = 8\ntopk_group = 4\n").config.model;
  EXPECT_EQ(model.scoring_func, "sigmoid");
  EXPECT_EQ(model.first_k_dense_replace, 1);
  EXPECT_TRUE(model.correction_bias && model.attention_bias);
  EXPECT_FALSE(model.attention_output_bias);
  EXPECT_THAT(complaint(glm + "n_group = 3\n"),
              HasSubstr("n_group = 3: does not divide num_experts = 128"));
  EXPECT_THAT(complaint(glm + "num_experts = 4\nnum_experts_per_tok = 1\nn_group = 4\n"),
              HasSubstr("into groups of at least 2"));
  EXPECT_THAT(
      complaint(glm + "n_group = 2\ntopk_group = 3\n"),
      HasSubstr("topk_group = 3: a token cannot choose among more than n_group = 2 groups"));
  EXPECT_THAT(complaint(glm + "n_group = 32\ntopk_group = 1\n"),
              HasSubstr("num_experts_per_tok = 8: a token cannot choose more than the 4 experts of "
                        "topk_group = 1 groups; increase topk_group"));
  EXPECT_THAT(complaint(glm + "first_k_dense_replace = 2\n"),
              HasSubstr("leaves no layer with experts"));
  EXPECT_THAT(complaint(glm + "scoring_func = \"tanh\"\n"), HasSubstr("softmax"));
  EXPECT_THAT(complaint(glm + "router_bias_update_rate = -0.1\n"),
              HasSubstr("router_bias_update_rate = -0.1: must be between 0 and 1"));
}

TEST(rules, contradictory_keys_of_experts_are_refused) {
  const std::string sparse = kSmall +
                             "model_type = \"qwen3_moe\"\nhidden_size = 64\n"
                             "num_attention_heads = 4\nintermediate_size = 96\n";
  const std::string wide = "moe_intermediate_size = 36\n";
  EXPECT_EQ(read(sparse + wide).config.model.num_experts, 128);
  EXPECT_THAT(complaint(sparse),
              HasSubstr("model.moe_intermediate_size: missing; set it, or set model.flavor"));
  EXPECT_THAT(
      complaint(sparse + wide + "num_experts = 4\nnum_experts_per_tok = 5\n"),
      HasSubstr("num_experts_per_tok = 5: a token cannot choose more than num_experts = 4"));
  EXPECT_THAT(complaint(sparse + wide + "mlp_only_layers = [0, 2]\n"),
              HasSubstr("has layer 2 of a model whose layers are 0 to 1"));
  EXPECT_THAT(complaint(sparse + wide + "mlp_only_layers = [0, 1]\n"),
              HasSubstr("leaves no layer with experts"));
  EXPECT_THAT(complaint(sparse + wide + "decoder_sparse_step = 0\n"),
              HasSubstr("decoder_sparse_step = 0: must be between 1 and"));
  // One list of the wrong length is one complaint.
  EXPECT_THAT(complaint(sparse + wide + "layer_types = [\"full_attention\"]\n"),
              HasSubstr("has 1 entries for num_hidden_layers = 2"));
  EXPECT_THAT(complaint(sparse + wide, {{"parallelism.tensor", "8"}}),
              HasSubstr("does not divide model.moe_intermediate_size = 36; possible near 8: 6, 9"));
  EXPECT_THAT(complaint(sparse + wide, {{"training.dtype", "float8"}}),
              HasSubstr("is not implemented for experts yet; use bfloat16"));
  EXPECT_THAT(complaint(sparse + wide + "router_z_loss_coef = -1\n"),
              HasSubstr("router_z_loss_coef = -1: must be between 0 and 1000000"));
  EXPECT_THAT(complaint(kSmall + "router_z_loss_coef = 0.001\n"),
              HasSubstr("router_z_loss_coef: does not apply to models of type llama; remove it"));
  EXPECT_THAT(complaint(sparse + wide + "n_group = 4\n"),
              HasSubstr("n_group: does not apply to models of type qwen3_moe; remove it"));
  EXPECT_THAT(complaint(kSmall + "num_experts = 8\n"),
              HasSubstr("num_experts: does not apply to models of type llama; remove it"));
}

TEST(rules, expert_ranks_must_fit_the_experts_and_the_data_ranks) {
  const std::string sparse = kSmall +
                             "model_type = \"qwen3_moe\"\nhidden_size = 64\n"
                             "num_attention_heads = 4\nintermediate_size = 96\n"
                             "moe_intermediate_size = 36\nnum_experts = 12\n"
                             "num_experts_per_tok = 2\n";
  const auto with = [&](const char* expert, const char* shard, const char* replicate) {
    return complaint(sparse, {{"parallelism.expert", expert},
                              {"parallelism.data_shard", shard},
                              {"parallelism.data_replicate", replicate},
                              {"training.global_batch_size", "48"}});
  };
  EXPECT_EQ(read(sparse, {{"parallelism.expert", "4"}, {"training.global_batch_size", "8"}})
                .config.parallelism.expert,
            4);
  EXPECT_THAT(with("5", "10", "1"),
              HasSubstr("does not divide model.num_experts = 12; possible near 5: 4, 6"));
  EXPECT_THAT(with("4", "6", "1"), HasSubstr("must divide the 6 data ranks, and divide or be a "
                                             "multiple of data_shard = 6; possible near 4: 3, 6"));
  EXPECT_THAT(with("4", "6", "2"), HasSubstr("possible near 4: 3, 6"));
  EXPECT_THAT(complaint(sparse, {{"parallelism.expert", "2"}, {"optimizer.name", "LAMB"}}),
              HasSubstr("is not implemented for LAMB"));
  EXPECT_THAT(complaint(sparse, {{"parallelism.expert", "3"}, {"job.reproducible", "true"}}),
              HasSubstr("must be a power of two with job.reproducible, not 3"));
  EXPECT_THAT(complaint(kSmall, {{"parallelism.expert", "2"}}),
              HasSubstr("needs a model with experts; remove it, or choose another model"));
}

TEST(rules, a_flavor_made_narrower_keeps_its_proportions) {
  const ModelConfig gpt2 =
      read(kGood, {{"model.flavor", "gpt2-124m"}, {"model.hidden_size", "384"}}).config.model;
  EXPECT_EQ(gpt2.head_dim, 32);
  EXPECT_EQ(gpt2.intermediate_size, 1536);
  EXPECT_EQ(gpt2.num_key_value_heads, 12);
  const ModelConfig qwen3 =
      read(kGood, {{"model.flavor", "qwen3-8b"}, {"model.hidden_size", "512"}}).config.model;
  EXPECT_EQ(qwen3.head_dim, 128);
}

TEST(rules, an_optimizer_brings_its_own_defaults) {
  const auto optimizer = [](const std::string& name) {
    return read(kGood, {{"optimizer.name", name}}).config.optimizer;
  };
  EXPECT_EQ(optimizer("AdamW"), OptimizerOptions{});
  EXPECT_EQ(optimizer("Lion").beta2, 0.99);
  EXPECT_EQ(optimizer("LAMB").beta2, 0.999);
  EXPECT_EQ(optimizer("LAMB").eps, 1e-6);
  EXPECT_EQ(optimizer("SGD").momentum, 0.9);
  EXPECT_FALSE(optimizer("SGD").nesterov);
  EXPECT_EQ(optimizer("Muon").momentum, 0.95);
  EXPECT_TRUE(optimizer("Muon").nesterov);
  const OptimizerOptions given =
      read(kGood, {{"optimizer.name", "Muon"}, {"optimizer.momentum", "0.8"}}).config.optimizer;
  EXPECT_EQ(given.momentum, 0.8);
}

TEST(rules, what_an_optimizer_reads_is_a_key) {
  for (const NamedOptimizer& named : named_optimizers()) {
    for (const std::string_view member : named.reads) {
      const Option* const option = find_option(say("optimizer.", member));
      ASSERT_NE(option, nullptr) << named.name << ' ' << member;
      RunConfig config;
      config.optimizer.name = named.name;
      EXPECT_TRUE(option->applies(config)) << named.name << ' ' << member;
    }
  }
}

TEST(rules, what_a_model_needs_and_lacks_is_named) {
  const std::string text = complaint(kSmall);
  EXPECT_THAT(text, StartsWith("3 errors in the config"));
  EXPECT_THAT(text, HasSubstr("run.toml: model.hidden_size: missing; set it, or set model.flavor"));
  EXPECT_THAT(text, HasSubstr("model.num_attention_heads: missing"));
  EXPECT_THAT(text, HasSubstr("model.intermediate_size: missing"));
  EXPECT_THAT(complaint("[data]\ntrain = [{ path = \"a\" }]\n[training]\nsteps = 1\n"),
              HasSubstr("model.vocab_size: missing"));
}

struct Case {
  std::vector<Override> overrides;
  const char* expected;
};

class contradiction : public testing::TestWithParam<Case> {};

TEST_P(contradiction, is_refused_with_one_line_that_says_why) {
  EXPECT_EQ(complaint(kGood, GetParam().overrides), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    of, contradiction,
    testing::Values(
        Case{{{"training.tokens", "5000"}},
             "run.toml:6:9: training.steps = 100: conflicts with training.tokens = 5000; set one "
             "of them to 0"},
        Case{{{"training.steps", "0"}},
             "command line: --training.steps: set the length of the run: training.steps or "
             "training.tokens"},
        Case{{{"data.train", "[]"}},
             "command line: --data.train: no training data; give train = [{ path = \"PREFIX\" }]"},
        Case{{{"training.local_batch_size", "2"}, {"training.global_batch_size", "3"}},
             "command line: --training.global_batch_size = 3: must be a multiple of "
             "local_batch_size = 2"},
        Case{{{"training.rampup_batch_size", "[[2, 4]]"}},
             "command line: --training.rampup_batch_size: [2, 4]: the first entry must be for step "
             "1"},
        Case{{{"training.rampup_batch_size", "[[1, 4], [9, 4]]"}},
             "command line: --training.rampup_batch_size: [9, 4]: steps and batch sizes must be "
             "ascending"},
        Case{{{"training.rampup_batch_size", "[[1, 3], [9, 4]]"},
              {"training.local_batch_size", "2"}},
             "command line: --training.rampup_batch_size: [1, 3]: must be a multiple of "
             "local_batch_size = 2"},
        Case{
            {{"training.rampup_batch_size", "[[1, 4], [9, 8]]"},
             {"training.global_batch_size", "16"}},
            "command line: --training.rampup_batch_size = [[1, 4], [9, 8]]: ends with 8 sequences, "
            "but training.global_batch_size is 16; make them equal, or remove global_batch_size"},
        Case{{{"training.rampup_batch_size", "[[1, 6], [9, 8]]"}, {"parallelism.data_shard", "4"}},
             "command line: --training.rampup_batch_size = [[1, 6], [9, 8]]: 6 sequences are not a "
             "multiple of local_batch_size = 1 times 4 data ranks; possible near 6: 4, 8"},
        Case{{{"training.rampup_batch_size", "[[1, 6], [9, 8]]"},
              {"parallelism.data_shard", "2"},
              {"job.reproducible", "true"}},
             "command line: --job.reproducible: the number of micro-batches per data-parallel rank "
             "must be a power of two, not 3; change the sizes in rampup_batch_size"},
        Case{{{"training.rampup_batch_size", "[[1, 3], [9, 8]]"},
              {"model.num_hidden_layers", "4"},
              {"parallelism.pipeline", "2"},
              {"parallelism.virtual_stages", "2"},
              {"parallelism.schedule", "Interleaved1F1B"}},
             "command line: --training.rampup_batch_size = [[1, 3], [9, 8]]: schedule "
             "Interleaved1F1B needs micro-batches in multiples of parallelism.pipeline = 2, but a "
             "step of 3 sequences has 3"},
        Case{{{"lr_scheduler.name", "wsd"},
              {"lr_scheduler.warmup_steps", "60"},
              {"lr_scheduler.decay_ratio", "0.5"}},
             "command line: --lr_scheduler.warmup_steps = 60: warmup and decay_ratio = 0.5 "
             "together exceed the run of 100 steps"},
        Case{{{"data.split", "0.1"}, {"data.validation", "[{ path = 'v' }]"}},
             "command line: --data.split = 0.1: conflicts with data.validation; set only one of "
             "them"},
        Case{{{"data.stages",
               "[{ from_step = 9, train = [{ path = 'a' }] }, { from_step = 9, train = [{ path = "
               "'b' }] }]"}},
             "command line: --data.stages: from_step = 9: stages must be in ascending order of "
             "from_step"},
        Case{{{"data.stages", "[{ from_step = 9, train = [{ path = '/a' }, { path = '/a' }] }]"}},
             "command line: --data.stages: /a appears twice in one stage; give it once, with the "
             "sum of both weights"},
        Case{{{"data.order", "megatron"},
              {"data.stages", "[{ from_step = 9, train = [{ path = 'a' }] }]"}},
             "command line: --data.order = \"megatron\": Megatron-LM's order has no stages; remove "
             "data.stages, or use data.order = \"trireme\""},
        Case{{{"data.order", "megatron"}, {"job.seed", "4294967296"}},
             "command line: --job.seed = 4294967296: Megatron-LM's order supports seeds up to "
             "4294967295"},
        Case{{{"data.order_samples", "10"}},
             "command line: --data.order_samples: does not apply to data.order = \"trireme\"; "
             "remove it"},
        Case{{{"validation.freq", "10"}},
             "command line: --validation.freq = 10: no validation data; set data.validation or "
             "data.split"},
        Case{{{"job.reproducible", "true"}, {"parallelism.schedule", "ZBH1"}},
             "command line: --job.reproducible = true: reproducible sums need the gradients of a "
             "micro-batch together, but ZBH1 defers weight gradients; use another schedule"},
        Case{{{"training.dtype", "float8"}, {"training.seq_len", "40"}},
             "command line: --training.dtype = \"float8\": needs matmul sizes in multiples of 16, "
             "and local_batch_size times seq_len is 40"},
        Case{{{"training.dtype", "float8"}, {"model.intermediate_size", "100"}},
             "command line: --training.dtype = \"float8\": needs matmul sizes in multiples of 16, "
             "and the MLP's hidden size is 100"},
        Case{{{"training.dtype", "float8"},
              {"model.intermediate_size", "96"},
              {"parallelism.tensor", "4"}},
             "command line: --training.dtype = \"float8\": needs matmul sizes in multiples of 16, "
             "and the MLP's hidden size of a tensor rank is 24"},
        Case{{{"parallelism.context", "3"}},
             "command line: --parallelism.context = 3: needs sequences of a multiple of 6 tokens, "
             "not 1024; "
             "possible near 1024: 1020, 1026"},
        Case{{{"parallelism.tensor", "3"}},
             "command line: --parallelism.tensor = 3: does not divide model.num_attention_heads = "
             "4; possible near 3: 2, 4"},
        Case{{{"parallelism.tensor", "8"}},
             "command line: --parallelism.tensor = 8: does not divide model.num_attention_heads = "
             "4; possible near 8: 4"},
        Case{{{"parallelism.pipeline_parallel_degree", "3"}},
             "command line: --parallelism.pipeline = 3: 3 stages for 2 layers; at most 2"},
        Case{{{"parallelism.virtual_stages", "2"}},
             "command line: --parallelism.virtual_stages = 2: schedule 1F1B has one stage per "
             "rank; use Interleaved1F1B for more"},
        Case{{{"parallelism.pipeline", "2"},
              {"parallelism.virtual_stages", "2"},
              {"parallelism.schedule", "Interleaved1F1B"},
              {"training.global_batch_size", "3"},
              {"model.num_hidden_layers", "4"}},
             "command line: --training.global_batch_size = 3: schedule Interleaved1F1B needs "
             "micro-batches in multiples of parallelism.pipeline = 2, but a step has 3; "
             "global_batch_size possible near 3: 2, 4"},
        Case{{{"parallelism.sequence", "true"}},
             "command line: --parallelism.sequence = true: has no effect with parallelism.tensor = "
             "1; remove it, or increase parallelism.tensor"},
        Case{{{"checkpoint.allow_changes", "[\"optimizer.lr\", \"model.hidden_sise\"]"}},
             "command line: --checkpoint.allow_changes = [\"optimizer.lr\", "
             "\"model.hidden_sise\"]: \"model.hidden_sise\" is neither a key that changes "
             "numerics, nor data.stages, nor \"all\"; did you mean \"model.hidden_size\"?"},
        Case{{{"parallelism.gradient_compression", "topk"}},
             "command line: --parallelism.gradient_compression = \"topk\": needs data_replicate > "
             "1: only gradients between replicas are compressed"},
        Case{{{"parallelism.gradient_compression", "bfloat16"},
              {"parallelism.data_replicate", "0"},
              {"job.reproducible", "true"}},
             "command line: --parallelism.gradient_compression = \"bfloat16\": conflicts with "
             "job.reproducible: compression error depends on the layout"},
        Case{{{"parallelism.gradient_compression", "onebit"},
              {"parallelism.data_replicate", "0"},
              {"parallelism.tensor", "2"}},
             "command line: --parallelism.gradient_compression = \"onebit\": makes parameters that "
             "are replicated across tensor ranks drift apart; use \"bfloat16\", or tensor = 1"},
        Case{{{"model.hidden_size", "66"}},
             "command line: --model.hidden_size = 66: model.num_attention_heads = 4: does not "
             "divide hidden_size = 66; or give head_dim"},
        Case{{{"model.num_key_value_heads", "3"}},
             "command line: --model.num_key_value_heads = 3: does not divide num_attention_heads "
             "= 4"},
        Case{{{"model.head_dim", "15"}},
             "command line: --model.head_dim = 15: rotary positions need an even head_dim"},
        Case{{{"model.model_type", "gpt2"}},
             "command line: --model.model_type = \"gpt2\": flavor tiny is of type llama; remove "
             "one of them"},
        Case{{{"optimizer.name", "SGD"}, {"optimizer.beta1", "0.8"}},
             "command line: --optimizer.beta1: does not apply to SGD; remove it"},
        Case{{{"optimizer.momentum", "0.8"}},
             "command line: --optimizer.momentum: does not apply to AdamW; remove it"},
        Case{{{"optimizer.name", "LAMB"}, {"optimizer.ns_steps", "3"}},
             "command line: --optimizer.ns_steps: does not apply to LAMB; remove it"},
        Case{{{"optimizer.stochastic_rounding", "true"}},
             "command line: --optimizer.stochastic_rounding: does not apply to weights in float32; "
             "remove it"},
        Case{{{"model.layer_norm_epsilon", "1e-5"}},
             "command line: --model.layer_norm_epsilon: does not apply to models of type llama; "
             "remove it"},
        Case{{{"model.flavor", "gpt2-124m"}, {"training.seq_len", "2048"}},
             "command line: --training.seq_len = 2048: longer than the model's learned positions, "
             "max_position_embeddings = 1024"},
        Case{{{"validation.multiple_choice", "[\"h.jsonl\"]"}},
             "command line: --validation.multiple_choice = [\"/home/me/h.jsonl\"]: runs at "
             "validations, but validation.freq is 0; set validation.freq"},
        Case{{{"validation.multiple_choice", "[\"a/h.jsonl\", \"b/h.jsonl\"]"},
              {"validation.freq", "5"}},
             "command line: --validation.multiple_choice = [\"/home/me/a/h.jsonl\", "
             "\"/home/me/b/h.jsonl\"]: has two files named \"h\""},
        Case{{{"validation.sample_freq", "5"}, {"parallelism.tensor", "2"}},
             "command line: --validation.sample_freq = 5: sampling needs the whole model on one "
             "rank, but parallelism.tensor is 2; set it to 0 and sample from checkpoints with "
             "'trireme generate'"},
        Case{{{"validation.sample_freq", "5"}, {"validation.sample_tokens", "100000"}},
             "command line: --validation.sample_tokens = 100000: a sample with its prompt "
             "must fit in training.seq_len = 1024 tokens"},
        Case{{{"training.steps", "1000000000000"}, {"training.global_batch_size", "1073741824"}},
             "command line: --training.steps = 1000000000000: more tokens than can be counted"}));

TEST(rules, tokens_become_whole_steps) {
  const RunConfig config = read(kGood, {{"training.steps", "0"},
                                        {"training.tokens", "1025"},
                                        {"training.seq_len", "128"},
                                        {"training.local_batch_size", "2"},
                                        {"training.global_batch_size", "4"}})
                               .config;
  EXPECT_EQ(tokens_per_step(config), 512);
  EXPECT_EQ(total_steps(config), 3);
  EXPECT_EQ(micro_batches_per_step(config), 2);
}

TEST(rules, a_ramp_of_the_batch_ends_with_full_steps) {
  const LoadedConfig loaded = read(kGood, {{"training.rampup_batch_size", "[[1, 2], [4, 6]]"},
                                           {"training.steps", "0"},
                                           {"training.tokens", "3201"},
                                           {"training.seq_len", "128"},
                                           {"parallelism.data_shard", "0"}});
  const RunConfig config = for_ranks(loaded, 2).config;
  const TrainingConfig& training = config.training;
  EXPECT_EQ(training.global_batch_size, 6);
  EXPECT_EQ(batch_sizes(training), (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(total_steps(config), 7);  // 3 x 2 + 4 x 6 sequences: 3200 tokens are 25 of them
  EXPECT_EQ(micro_batches_per_step(config), 3);
  EXPECT_EQ(micro_batches_of_step(config, 3), 1);
  EXPECT_EQ(micro_batches_of_step(config, 4), 3);
  std::int64_t before = 0;
  for (std::int64_t step = 1; step <= 9; ++step) {
    EXPECT_EQ(sequences_before_step(training, step), before);
    const std::int64_t sequences = sequences_of_step(training, step);
    EXPECT_EQ(sequences, step < 4 ? 2 : 6);
    for (std::int64_t i = 0; i < sequences; ++i) {
      EXPECT_EQ(step_of_sequence(training, before + i), step);
    }
    before += sequences;
  }
}

}  // namespace
}  // namespace trireme
