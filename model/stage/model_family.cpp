#include "model/stage/model_family.h"

#include "model/base/error.h"

namespace trireme {

std::span<const ModelFamily> model_families() {
  static const std::vector<ModelFamily> kAll{
      {.defaults = {.model_type = "gpt2",
                    .norm = NormKind::kLayerNorm,
                    .position = PositionKind::kLearned,
                    .activation = ActivationKind::kGeluTanh,
                    .max_position_embeddings = 1024,
                    .attention_bias = true,
                    .attention_output_bias = true,
                    .mlp_bias = true,
                    .tie_word_embeddings = true},
       .mlp_ratio = 4},
      {.defaults = {.model_type = "llama"}},
      {.defaults = {.model_type = "mistral", .rope_theta = 1e6}},  // without a sliding window
      // Hugging Face's Qwen2 has biases only on query, key and value.
      {.defaults =
           {.model_type = "qwen2", .norm_eps = 1e-6, .rope_theta = 1e6, .attention_bias = true},
       .attention_output_bias = false},
      {.defaults = {.model_type = "qwen3",
                    .head_dim = 128,
                    .norm_eps = 1e-6,
                    .rope_theta = 1e6,
                    .qk_norm = true}}};
  return kAll;
}

const ModelFamily& find_family(std::string_view model_type) {
  for (const ModelFamily& family : model_families()) {
    if (family.defaults.model_type == model_type) return family;
  }
  throw Error(say("unknown model_type ", model_type));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const ModelFamily& family : model_families()) names.push_back(family.defaults.model_type);
  return names;
}

}  // namespace trireme
