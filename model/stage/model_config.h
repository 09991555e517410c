#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/ops/norm_kind.h"

namespace trireme {

enum class PositionKind : std::uint8_t { kLearned, kRotary };
enum class ActivationKind : std::uint8_t { kGeluTanh, kSwiGlu };

// Config values, in the order of ActivationKind.
inline constexpr std::array<std::string_view, 2> kActivationNames{"gelu_new", "silu"};

// Llama 3's scaling of low rotary frequencies (Grattafiori et al. 2024, Hugging Face's rope_type
// "llama3"). Factor 1: no scaling.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScaling&) const = default;
};

// A decoder with switches for all differences between GPT-2, Llama, Qwen2.5 and Qwen3. Names follow
// Hugging Face.
struct ModelConfig {
  std::string model_type = "llama";  // a ModelFamily: for defaults, display and export
  NormKind norm = NormKind::kRmsNorm;
  PositionKind position = PositionKind::kRotary;
  ActivationKind activation = ActivationKind::kSwiGlu;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  bool attention_bias = false;         // of the query, key and value projections
  bool attention_output_bias = false;  // of the output projection
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm of every query and key head (Qwen3)
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  bool scale_residual_init = true;  // scale output projections by 1 / sqrt(2 layers), as GPT-2

  bool operator==(const ModelConfig&) const = default;
};

// Exact number of parameters of the whole model.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace trireme
