#include "trainer/convert/huggingface/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"
#include "tests/checkpoint/state.h"
#include "trainer/config/flavors.h"
#include "trainer/convert/huggingface/tensor_names.h"

namespace trireme {
namespace {

using checkpoint::Scratch;
using nlohmann::json;

json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 128256},
          {"hidden_size", 4096},
          {"intermediate_size", 14336},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"max_position_embeddings", 131072},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"}};
}

json gpt2() {
  return {{"model_type", "gpt2"},
          {"vocab_size", 50257},
          {"n_embd", 768},
          {"n_layer", 12},
          {"n_head", 12},
          {"n_positions", 1024},
          {"layer_norm_epsilon", 1e-5}};
}

json qwen(const char* family) {
  json config = llama();
  config["model_type"] = family;
  config["architectures"] = {std::string(family) == "qwen2" ? "Qwen2ForCausalLM"
                                                            : "Qwen3ForCausalLM"};
  return config;
}

json gpt_oss() {
  json config = llama();
  config.update({{"model_type", "gpt_oss"},
                 {"architectures", {"GptOssForCausalLM"}},
                 {"head_dim", 64},
                 {"intermediate_size", 2880},
                 {"num_local_experts", 32},
                 {"num_experts_per_tok", 4},
                 {"experts_per_token", 4},
                 {"initial_context_length", 4096},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 32.0},
                   {"original_max_position_embeddings", 4096},
                   {"truncate", false}}}});
  return config;
}

// `experts`: under the names of one version of transformers or another, or both.
json qwen3_moe(const json& experts) {
  json config = llama();
  config.update({{"model_type", "qwen3_moe"},
                 {"architectures", {"Qwen3MoeForCausalLM"}},
                 {"head_dim", 64},
                 {"moe_intermediate_size", 768},
                 {"num_experts_per_tok", 4},
                 {"decoder_sparse_step", 1}});
  config.update(experts);
  return config;
}

json mistral() {
  json config = llama();
  config.update({{"model_type", "mistral"},
                 {"architectures", {"MistralForCausalLM"}},
                 {"max_position_embeddings", 32768},
                 {"sliding_window", nullptr}});
  return config;
}

ImportedConfig imported(const json& config) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "config.json") << config.dump();
  return read_config_json(scratch.path());
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

std::string refusal(const json& config) {
  try {
    imported(config);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "read";
}

TEST(ConfigJson, every_flavor_reads_back_as_itself_and_has_its_tensors) {
  for (const std::string& name : flavor_names()) {
    ModelConfig model = *find_flavor(name);
    model.attention_output_bias =
        model.attention_bias && find_family(model.model_type).attention_output_bias;
    const Scratch scratch;
    std::ofstream(scratch.path() / "config.json")
        << config_json(model, DType::kBf16, special_tokens({}, 7)).dump();
    EXPECT_NO_THROW(require_exportable(model, scratch.path())) << name;
    std::int64_t count = 0;
    for (const ForeignTensor& tensor : foreign_tensors(model)) count += tensor.shape.count();
    EXPECT_EQ(count, parameter_count(model)) << name;
  }
}

TEST(ConfigJson, what_a_family_cannot_say_is_refused_by_key) {
  const auto refused = [](const std::string& flavor, auto change) {
    ModelConfig model = *find_flavor(flavor);
    change(model);
    const Scratch scratch;
    std::ofstream(scratch.path() / "config.json")
        << config_json(model, DType::kF32, special_tokens({}, -1)).dump();
    try {
      require_exportable(model, scratch.path());
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string("sayable");
  };
  const auto has = [](const std::string& text, const char* word) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  has(refused("llama3-8b", [](ModelConfig& m) { m.qk_norm = true; }), "model.qk_norm");
  has(refused("qwen2.5-0.5b", [](ModelConfig& m) { m.attention_bias = false; }),
      "model.attention_bias");
  has(refused("qwen3-0.6b", [](ModelConfig& m) { m.mlp_bias = true; }), "model.mlp_bias");
  has(refused("gpt2-124m", [](ModelConfig& m) { m.num_key_value_heads = 4; }),
      "model.num_key_value_heads");
  has(refused("llama2-7b", [](ModelConfig& m) { m.sliding_window = 100; }), "sliding_window");
  has(refused("gemma2-2b", [](ModelConfig& m) { m.activation = Activation::kRelu2; }),
      "hidden_activation = \"relu2\"");
  has(refused(
          "phi3-mini",
          [](ModelConfig& m) { m.rope_scaling = {.type = RopeScaling::Type::kYarn, .factor = 2}; }),
      "rope_scaling = {\"factor\":2.0,\"type\":\"yarn\"}");
  EXPECT_EQ(refused("llama2-7b", [](ModelConfig& m) { m.scale_residual_init = false; }), "sayable");
}

TEST(ConfigJson, the_words_of_both_transformers_are_understood) {
  const ModelConfig plain = imported(llama()).config.model;
  EXPECT_EQ(plain.rope_theta, 500000);
  EXPECT_EQ(plain.head_dim, 128);
  EXPECT_EQ(plain.rope_scaling, RopeScaling{});
  const json scaled = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192},
                       {"rope_type", "llama3"}};
  json five = llama();
  five.erase("rope_theta");
  five.erase("torch_dtype");
  five["dtype"] = "bfloat16";
  five["rope_parameters"] = with(scaled, {{"rope_theta", 500000.0}});
  const ImportedConfig a = imported(with(llama(), {{"rope_scaling", scaled}})), b = imported(five);
  EXPECT_EQ(a.config.model, b.config.model);
  EXPECT_EQ(a.config.training, b.config.training);
  EXPECT_EQ(a.config.model.rope_scaling, (RopeScaling{.type = RopeScaling::Type::kLlama3,
                                                      .factor = 8,
                                                      .original_max_position_embeddings = 8192}));
  EXPECT_EQ(a.config.training.dtype, "bfloat16");
  EXPECT_EQ(a.notes, std::vector<std::string>{});
  json bare = llama();
  bare.erase("rope_theta");
  bare.erase("rms_norm_eps");
  EXPECT_EQ(imported(bare).config.model.rope_theta, 10000);  // transformers' defaults, not ours
  EXPECT_EQ(imported(bare).config.model.norm_eps, 1e-6);
  EXPECT_EQ(imported(with(qwen("qwen3"), {{"head_dim", 64}})).config.model.head_dim, 64);
  EXPECT_TRUE(imported(gpt2()).config.model.tie_word_embeddings);
  EXPECT_EQ(imported(gpt2()).config.model.intermediate_size, 3072);
}

using Types = std::vector<LayerType>;

// As transformers 4 and 5 derive them.
TEST(ConfigJson, of_experts_has_the_names_of_each_version) {
  for (const json& experts : {json{{"num_experts", 16}}, json{{"num_local_experts", 16}},
                              json{{"num_experts", 16}, {"num_local_experts", 16}}}) {
    EXPECT_EQ(imported(qwen3_moe(experts)).config.model.num_experts, 16) << experts;
  }
}

TEST(ConfigJson, gpt_oss_is_read_with_its_defaults) {
  const ImportedConfig read = imported(gpt_oss());
  const ModelConfig& model = read.config.model;
  EXPECT_TRUE(read.notes.empty()) << read.notes.front();
  EXPECT_EQ(model.moe_intermediate_size, 2880);
  EXPECT_EQ(model.swiglu_limit, 7);
  EXPECT_EQ(model.sliding_window, 128);
  EXPECT_EQ(model.layer_types[0], LayerType::kSlidingAttention);
  EXPECT_EQ(model.layer_types[1], LayerType::kFullAttention);
  EXPECT_FALSE(model.rope_scaling.truncate);
  EXPECT_TRUE(model.attention_bias && model.attention_output_bias && model.attention_sinks);
  EXPECT_EQ(imported(with(gpt_oss(), {{"swiglu_limit", 5.5}})).config.model.swiglu_limit, 5.5);
}

TEST(ConfigJson, windows_and_positions_by_layer_follow_each_familys_words) {
  const auto model = [](const json& config) { return imported(config).config.model; };
  const LayerType full = LayerType::kFullAttention, sliding = LayerType::kSlidingAttention;
  const auto layers = [&](const ModelConfig& m) { return m.layer_types; };
  json mistral_window = mistral();
  mistral_window.erase("sliding_window");  // transformers' default is 4096
  EXPECT_EQ(model(mistral_window).sliding_window, 4096);
  EXPECT_EQ(model(mistral()).sliding_window, 0);
  const json short_one = {{"num_hidden_layers", 4}};
  const json qwen_window = {{"sliding_window", 100}, {"max_window_layers", 3}};
  EXPECT_EQ(model(with(with(qwen("qwen2"), short_one), qwen_window)).sliding_window, 0);
  const ModelConfig used = model(
      with(with(with(qwen("qwen2"), short_one), qwen_window), {{"use_sliding_window", true}}));
  EXPECT_EQ(layers(used), (Types{full, full, full, sliding}));
  const auto of = [&](const char* type, const char* architecture) {
    return with(with(llama(), short_one),
                {{"model_type", type}, {"architectures", {architecture}}});
  };
  const json gemma2 = of("gemma2", "Gemma2ForCausalLM"),
             gemma3 = of("gemma3_text", "Gemma3ForCausalLM"),
             smollm = of("smollm3", "SmolLM3ForCausalLM"), olmo3 = of("olmo3", "Olmo3ForCausalLM");
  EXPECT_EQ(layers(model(gemma2)), (Types{sliding, full, sliding, full}));
  EXPECT_EQ(model(gemma2).attn_logit_softcapping, 50);
  EXPECT_EQ(model(with(gemma2, {{"attn_logit_softcapping", nullptr}})).attn_logit_softcapping, 0);
  EXPECT_EQ(layers(model(gemma3)), Types(4, sliding));
  EXPECT_EQ(layers(model(with(gemma3, {{"sliding_window_pattern", 3}}))),
            (Types{sliding, sliding, full, sliding}));
  EXPECT_EQ(layers(model(olmo3)), (Types{sliding, sliding, sliding, full}));
  EXPECT_EQ(model(smollm).no_rope_layers, (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(model(with(smollm, {{"no_rope_layer_interval", 2}})).no_rope_layers,
            (std::vector<std::int64_t>{1, 0, 1, 0}));
  EXPECT_EQ(model(with(smollm, {{"no_rope_layers", {1, 1, 1, 1}}})).no_rope_layers,
            (std::vector<std::int64_t>{1, 1, 1, 1}));
}

TEST(ConfigJson, rotary_parameters_by_kind_of_layer_are_read) {
  json gemma = with(llama(), {{"model_type", "gemma3_text"},
                              {"architectures", {"Gemma3ForCausalLM"}},
                              {"num_hidden_layers", 6}});
  gemma.erase("rope_theta");
  const json five = {
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}}}}};
  const json four = {{"rope_theta", 1e6},
                     {"rope_local_base_freq", 5e3},
                     {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  EXPECT_EQ(imported(with(gemma, five)).config.model, imported(with(gemma, four)).config.model);
  const std::vector<RopeConfig> ropes = rope_configs(imported(with(gemma, five)).config.model);
  ASSERT_EQ(ropes.size(), 2u);
  EXPECT_EQ(ropes[0].theta, 1e6);
  EXPECT_EQ(ropes[0].scaling.factor, 8);
  EXPECT_EQ(ropes[1], (RopeConfig{.theta = 5e3}));
}

TEST(ConfigJson, what_changes_the_computation_is_refused_by_name_and_value) {
  const auto refuses = [](const json& config, const std::string& words) {
    EXPECT_NE(refusal(config).find(words), std::string::npos) << refusal(config);
  };
  EXPECT_EQ(refusal(llama()), "read");
  EXPECT_EQ(refusal(gpt2()), "read");
  refuses(with(llama(), {{"model_type", "dbrx"}}), "model_type = \"dbrx\"");
  refuses(with(llama(), {{"hidden_act", "relu"}}), "hidden_act = \"relu\": changes the model's");
  refuses(with(llama(), {{"sliding_window", 4096}}), "sliding_window = 4096");
  EXPECT_EQ(refusal(mistral()), "read");
  refuses(with(mistral(), {{"sliding_window", "wide"}}), "must be a positive integer");
  refuses(with(mistral(), {{"attention_bias", true}}), "attention_bias = true");
  EXPECT_EQ(refusal(with(qwen("qwen2"), {{"sliding_window", 4096}})), "read");
  refuses(with(qwen("qwen3"), {{"layer_types", {"full_attention", "sliding_attention"}}}),
          "layer_types = ");
  refuses(with(qwen("qwen3"), {{"layer_types", {"chunked_attention"}}}),
          "only full_attention and sliding_attention are implemented");
  refuses(with(llama(), {{"rope_scaling", {{"type", "mrope"}, {"factor", 2.0}}}}),
          "rope_scaling.rope_type = \"mrope\"");
  refuses(with(llama(), {{"rope_scaling", {{"type", "yarn"}}}}), "needs a factor above 1");
  refuses(with(llama(), {{"rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}}}),
          "needs short_factor and long_factor");
  refuses(with(llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta_fast", 8}}}}),
          "beta_fast");
  refuses(with(llama(), {{"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {1, 2}}}}}),
          "mrope_section");
  refuses(with(llama(), {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
          "partial_rotary_factor = 0.5");
  refuses(with(llama(), {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor = 0.5");
  refuses(with(llama(), {{"final_logit_softcapping", 30.0}}), "final_logit_softcapping = 30.0");
  refuses(with(llama(), {{"quantization_config", {{"bits", 4}}}}), "quantization_config");
  refuses(with(gpt_oss(), {{"quantization_config", {{"quant_method", "mxfp4"}}}}),
          "Mxfp4Config(dequantize=True)");
  refuses(with(gpt_oss(), {{"rope_scaling", nullptr}}), "write it out");
  refuses(with(gpt_oss(), {{"swiglu_alpha", 1.0}}), "swiglu_alpha = 1.0");
  refuses(with(gpt_oss(), {{"hidden_act", "gelu"}}), "hidden_act = \"gelu\"");
  refuses(with(llama(), {{"auto_map", {{"AutoModel", "x.Y"}}}}), "auto_map");
  refuses(with(llama(), {{"num_local_experts", 8}}), "num_local_experts = 8");
  refuses(qwen3_moe({{"num_experts", 16}, {"num_local_experts", 8}}), "num_local_experts = 8");
  refuses(with(llama(), {{"architectures", {"LlamaForSequenceClassification"}}}), "architectures");
  refuses(with(gpt2(), {{"activation_function", "relu"}}), "activation_function = \"relu\"");
  refuses(with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}), "scale_attn_by_inverse");
  refuses(with(qwen("qwen2"), {{"attention_bias", false}}), "attention_bias = false");
  const std::string two = refusal(with(llama(), {{"hidden_act", "relu"}, {"sliding_window", 1}}));
  EXPECT_NE(two.find("hidden_act"), std::string::npos) << two;
  EXPECT_NE(two.find("sliding_window"), std::string::npos) << two;
}

TEST(ConfigJson, hostile_values_are_refused_and_other_fields_noted) {
  const auto refuses = [](const json& config, const std::string& words) {
    EXPECT_NE(refusal(config).find(words), std::string::npos) << refusal(config);
  };
  refuses(with(llama(), {{"hidden_size", "big"}}),
          "hidden_size = \"big\": must be a positive integer");
  refuses(with(llama(), {{"hidden_size", -4}}), "must be a positive integer");
  refuses(with(llama(), {{"hidden_size", 1e300}}), "must be a positive integer");
  refuses(with(llama(), {{"num_key_value_heads", 5}}), "does not divide");
  refuses(with(llama(), {{"head_dim", 127}}), "even head_dim");
  refuses(with(llama(), {{"rms_norm_eps", -1}}), "rms_norm_eps");
  refuses(with(llama(), {{"rope_scaling", 3}}), "must be a table");
  json without = llama();
  without.erase("vocab_size");
  refuses(without, "vocab_size = null: is required");
  refuses(json::array(), "must be a JSON object");
  const auto notes = imported(with(gpt2(), {{"resid_pdrop", 0.1},
                                            {"use_magic", true},
                                            {"no_magic", false},
                                            {"nothing", nullptr}}))
                         .notes;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0],
              testing::HasSubstr("resid_pdrop = 0.1: not taken; dropout is set by training."));
  EXPECT_EQ(notes[1], "use_magic = true");
}

}  // namespace
}  // namespace trireme
