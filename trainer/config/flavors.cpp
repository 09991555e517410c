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
  c.rope_scaling = {.factor = scaling_factor,
                    .low_freq_factor = 1,
                    .high_freq_factor = 4,
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

// Mistral 7B v0.3 and later have no sliding window.
ModelConfig mistral(const FlavorShape& shape, std::int64_t head_dim, std::int64_t vocab,
                    double rope_theta) {
  ModelConfig c = find_family("mistral").defaults;
  c.head_dim = head_dim;
  c = with_shape(c, shape);
  c.vocab_size = vocab;
  c.rope_theta = rope_theta;
  c.max_position_embeddings = 32768;
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
      {"mistral-7b", mistral({32, 4096, 32, 8, 14336, false}, 128, 32768, 1e6)},
      {"mistral-small-24b", mistral({40, 5120, 32, 8, 32768, false}, 128, 131072, 1e8)},
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
