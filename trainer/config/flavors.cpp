#include "trainer/config/flavors.h"

#include "model/stage/model_family.h"

namespace trireme {
namespace {

struct Flavor {
  std::string name;
  ModelConfig model;
};

// [layers, hidden, heads]; everything else follows from GPT-2's family.
ModelConfig gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c = find_family("gpt2").defaults;
  c.vocab_size = 50257;
  c.hidden_size = hidden;
  c.intermediate_size = 4 * hidden;
  c.num_hidden_layers = layers;
  c.num_attention_heads = heads;
  c.num_key_value_heads = heads;
  c.head_dim = hidden / heads;
  c.max_position_embeddings = 1024;
  return c;
}

struct FlavorShape {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t intermediate;
  bool tied;
};

ModelConfig with_shape(ModelConfig c, const FlavorShape& shape) {
  c.num_hidden_layers = shape.layers;
  c.hidden_size = shape.hidden;
  c.num_attention_heads = shape.heads;
  c.num_key_value_heads = shape.kv_heads;
  c.intermediate_size = shape.intermediate;
  c.tie_word_embeddings = shape.tied;
  if (c.head_dim == 0) c.head_dim = shape.hidden / shape.heads;
  return c;
}

// Llama 3.1's frequencies are stretched by 8, Llama 3.2's by 32.
ModelConfig llama3(const FlavorShape& shape, double scaling_factor) {
  ModelConfig c = with_shape(find_family("llama").defaults, shape);
  c.vocab_size = 128256;
  c.rope_theta = 500000;
  c.rope_scaling = {.type = RopeScaling::Type::kLlama3,
                    .factor = scaling_factor,
                    .original_max_position_embeddings = 8192};
  c.max_position_embeddings = 131072;
  return c;
}

ModelConfig llama2(const FlavorShape& shape) {
  ModelConfig c = with_shape(find_family("llama").defaults, shape);
  c.vocab_size = 32000;
  c.max_position_embeddings = 4096;
  return c;
}

// What differs between the sizes of a family in addition to the shape. Zeros: the family's.
struct FlavorSize {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  double rope_theta = 0;
  std::int64_t head_dim = 0;
  std::int64_t sliding_window = -1;  // -1: the family's
  double query_pre_attn_scalar = 0;
};

ModelConfig of_family(std::string_view family, const FlavorShape& shape, const FlavorSize& size) {
  ModelConfig c = find_family(family).defaults;
  if (size.head_dim > 0) c.head_dim = size.head_dim;
  c = with_shape(c, shape);
  c.vocab_size = size.vocab;
  c.max_position_embeddings = size.positions;
  if (size.rope_theta > 0) c.rope_theta = size.rope_theta;
  if (size.sliding_window >= 0) c.sliding_window = size.sliding_window;
  if (size.query_pre_attn_scalar > 0) c.query_pre_attn_scalar = size.query_pre_attn_scalar;
  return c;
}

// Granite 3.1's multipliers, of which two depend on the width.
ModelConfig granite(const FlavorShape& shape, double attention_multiplier, double logits_scaling) {
  ModelConfig c =
      of_family("granite", shape, {.vocab = 49155, .positions = 131072, .rope_theta = 5e6});
  c.embedding_multiplier = 12;
  c.residual_multiplier = 0.22;
  c.attention_multiplier = attention_multiplier;
  c.logits_scaling = logits_scaling;
  return c;
}

ModelConfig olmo3(const FlavorShape& shape) {
  ModelConfig c = of_family("olmo3", shape, {.vocab = 100278, .positions = 65536});
  c.rope_scaling = {.type = RopeScaling::Type::kYarn,
                    .factor = 8,
                    .original_max_position_embeddings = 8192,
                    .attention_factor = 1.2079441541679836};
  return c;
}

// The text models of Gemma 3; from 4B on their long context stretches frequencies by 8.
ModelConfig gemma3(const FlavorShape& shape, const FlavorSize& size) {
  ModelConfig c = of_family("gemma3_text", shape, size);
  if (size.positions > 32768) c.rope_scaling = {.type = RopeScaling::Type::kLinear, .factor = 8};
  return c;
}

ModelConfig qwen25(const FlavorShape& shape, std::int64_t vocab, std::int64_t positions) {
  ModelConfig c = with_shape(find_family("qwen2").defaults, shape);
  c.vocab_size = vocab;
  c.max_position_embeddings = positions;
  return c;
}

ModelConfig qwen3(const FlavorShape& shape) {
  ModelConfig c = with_shape(find_family("qwen3").defaults, shape);
  c.vocab_size = 151936;
  c.max_position_embeddings = 40960;
  return c;
}

struct ExpertsShape {
  std::int64_t count, per_token, intermediate;
};

// `shape.intermediate`: of layers without experts.
ModelConfig sparse(std::string_view family, const FlavorShape& shape, const FlavorSize& size,
                   const ExpertsShape& experts) {
  ModelConfig c = of_family(family, shape, size);
  c.num_experts = experts.count;
  c.num_experts_per_tok = experts.per_token;
  c.moe_intermediate_size = experts.intermediate;
  return c;
}

ModelConfig gpt_oss(std::int64_t layers, std::int64_t experts) {
  ModelConfig c = sparse("gpt_oss", {layers, 2880, 64, 8, 0, false},
                         {.vocab = 201088, .positions = 131072}, {experts, 4, 2880});
  c.rope_scaling = {.type = RopeScaling::Type::kYarn,
                    .factor = 32,
                    .original_max_position_embeddings = 4096,
                    .truncate = false};
  return c;
}

// GLM-4.5.
ModelConfig glm45(ModelConfig c, std::int64_t dense, double scale, bool qk_norm) {
  c.first_k_dense_replace = dense;
  c.routed_scaling_factor = scale;
  c.qk_norm = qk_norm;
  return c;
}

// Our own small ones, for laptops and for the documentation.
ModelConfig small(const FlavorShape& shape, std::int64_t vocab, std::int64_t positions) {
  ModelConfig c = with_shape(find_family("llama").defaults, shape);
  c.vocab_size = vocab;
  c.max_position_embeddings = positions;
  return c;
}

std::vector<Flavor> flavors() {
  return {
      {"tiny", small({2, 64, 4, 2, 192, true}, 512, 512)},
      {"quickstart", small({4, 256, 4, 4, 704, true}, 4096, 1024)},
      {"gpt2-124m", gpt2(12, 768, 12)},
      {"gpt2-355m", gpt2(24, 1024, 16)},
      {"gpt2-774m", gpt2(36, 1280, 20)},
      {"gpt2-1.5b", gpt2(48, 1600, 25)},
      {"llama2-7b", llama2({32, 4096, 32, 32, 11008, false})},
      {"llama3.2-1b", llama3({16, 2048, 32, 8, 8192, true}, 32)},
      {"llama3.2-3b", llama3({28, 3072, 24, 8, 8192, true}, 32)},
      {"llama3-8b", llama3({32, 4096, 32, 8, 14336, false}, 8)},
      {"llama3-70b", llama3({80, 8192, 64, 8, 28672, false}, 8)},
      {"llama3-405b", llama3({126, 16384, 128, 8, 53248, false}, 8)},
      {"mistral-7b-v0.1",
       of_family("mistral", {32, 4096, 32, 8, 14336, false},
                 {.vocab = 32000, .positions = 32768, .rope_theta = 1e4, .sliding_window = 4096})},
      {"mistral-7b",
       of_family("mistral", {32, 4096, 32, 8, 14336, false}, {.vocab = 32768, .positions = 32768})},
      {"mistral-small-24b",
       of_family("mistral", {40, 5120, 32, 8, 32768, false},
                 {.vocab = 131072, .positions = 32768, .rope_theta = 1e8, .head_dim = 128})},
      {"qwen2.5-0.5b", qwen25({24, 896, 14, 2, 4864, true}, 151936, 32768)},
      {"qwen2.5-1.5b", qwen25({28, 1536, 12, 2, 8960, true}, 151936, 131072)},
      {"qwen2.5-3b", qwen25({36, 2048, 16, 2, 11008, true}, 151936, 32768)},
      {"qwen2.5-7b", qwen25({28, 3584, 28, 4, 18944, false}, 152064, 131072)},
      {"qwen3-0.6b", qwen3({28, 1024, 16, 8, 3072, true})},
      {"qwen3-1.7b", qwen3({28, 2048, 16, 8, 6144, true})},
      {"qwen3-4b", qwen3({36, 2560, 32, 8, 9728, true})},
      {"qwen3-8b", qwen3({36, 4096, 32, 8, 12288, false})},
      {"qwen3-14b", qwen3({40, 5120, 40, 8, 17408, false})},
      {"qwen3-32b", qwen3({64, 5120, 64, 8, 25600, false})},
      {"smollm3-3b", of_family("smollm3", {36, 2048, 16, 4, 11008, true},
                               {.vocab = 128256, .positions = 65536, .rope_theta = 5e6})},
      {"phi3-mini", of_family("phi3", {32, 3072, 32, 32, 8192, false},
                              {.vocab = 32064, .positions = 4096, .sliding_window = 2047})},
      {"phi4", of_family("phi3", {40, 5120, 40, 10, 17920, false},
                         {.vocab = 100352, .positions = 16384, .rope_theta = 250000})},
      {"granite3-2b", granite({40, 2048, 32, 8, 8192, true}, 1.0 / 64, 8)},
      {"granite3-8b", granite({40, 4096, 32, 8, 12800, true}, 1.0 / 128, 16)},
      {"olmo2-1b",
       of_family("olmo2", {16, 2048, 16, 16, 8192, false}, {.vocab = 100352, .positions = 4096})},
      {"olmo2-7b",
       of_family("olmo2", {32, 4096, 32, 32, 11008, false}, {.vocab = 100352, .positions = 4096})},
      {"olmo2-13b",
       of_family("olmo2", {40, 5120, 40, 40, 13824, false}, {.vocab = 100352, .positions = 4096})},
      {"olmo2-32b",
       of_family("olmo2", {64, 5120, 40, 8, 27648, false}, {.vocab = 100352, .positions = 4096})},
      {"olmo3-7b", olmo3({32, 4096, 32, 32, 11008, false})},
      {"olmo3-32b", olmo3({64, 5120, 40, 8, 27648, false})},
      {"gemma2-2b",
       of_family("gemma2", {26, 2304, 8, 4, 9216, true}, {.vocab = 256000, .positions = 8192})},
      {"gemma2-9b",
       of_family("gemma2", {42, 3584, 16, 8, 14336, true}, {.vocab = 256000, .positions = 8192})},
      {"gemma2-27b",
       of_family(
           "gemma2", {46, 4608, 32, 16, 36864, true},
           {.vocab = 256000, .positions = 8192, .head_dim = 128, .query_pre_attn_scalar = 144})},
      {"gemma3-270m", gemma3({18, 640, 4, 1, 2048, true},
                             {.vocab = 262144, .positions = 32768, .sliding_window = 512})},
      {"gemma3-1b", gemma3({26, 1152, 4, 1, 6912, true},
                           {.vocab = 262144, .positions = 32768, .sliding_window = 512})},
      {"gemma3-4b", gemma3({34, 2560, 8, 4, 10240, true}, {.vocab = 262208, .positions = 131072})},
      {"gemma3-12b",
       gemma3({48, 3840, 16, 8, 15360, true}, {.vocab = 262208, .positions = 131072})},
      {"gemma3-27b",
       gemma3(
           {62, 5376, 32, 16, 21504, true},
           {.vocab = 262208, .positions = 131072, .head_dim = 128, .query_pre_attn_scalar = 168})},
      {"glm4-9b",
       of_family("glm4", {40, 4096, 32, 2, 13696, false}, {.vocab = 151552, .positions = 32768})},
      {"mixtral-8x7b", sparse("mixtral", {32, 4096, 32, 8, 0, false},
                              {.vocab = 32000, .positions = 32768}, {8, 2, 14336})},
      {"mixtral-8x22b", sparse("mixtral", {56, 6144, 48, 8, 0, false},
                               {.vocab = 32768, .positions = 65536}, {8, 2, 16384})},
      {"olmoe-7b-a1b", sparse("olmoe", {16, 2048, 16, 16, 0, false},
                              {.vocab = 50304, .positions = 4096}, {64, 8, 1024})},
      {"qwen3-30b-a3b", sparse("qwen3_moe", {48, 2048, 32, 4, 6144, false},
                               {.vocab = 151936, .positions = 40960}, {128, 8, 768})},
      {"qwen3-235b-a22b", sparse("qwen3_moe", {94, 4096, 64, 4, 12288, false},
                                 {.vocab = 151936, .positions = 40960}, {128, 8, 1536})},
      {"gpt-oss-20b", gpt_oss(24, 32)},
      {"gpt-oss-120b", gpt_oss(36, 128)},
      {"glm4.5-air-106b-a12b", glm45(sparse("glm4_moe", {46, 4096, 96, 8, 10944, false},
                                            {.vocab = 151552, .positions = 131072}, {128, 8, 1408}),
                                     1, 1, false)},
      {"glm4.5-355b-a32b", glm45(sparse("glm4_moe", {92, 5120, 96, 8, 12288, false},
                                        {.vocab = 151552, .positions = 131072}, {160, 8, 1536}),
                                 3, 2.5, true)},
  };
}

}  // namespace

std::vector<std::string> flavor_names() {
  std::vector<std::string> names;
  for (const Flavor& flavor : flavors()) names.push_back(flavor.name);
  return names;
}

std::optional<ModelConfig> find_flavor(std::string_view name) {
  for (const Flavor& flavor : flavors()) {
    if (flavor.name == name) return flavor.model;
  }
  return std::nullopt;
}

}  // namespace trireme
