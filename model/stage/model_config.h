#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/ops/activation_kind.h"
#include "model/ops/norm_kind.h"

namespace trireme {

enum class PositionKind : std::uint8_t { kLearned, kRotary };
enum class LayerType : std::uint8_t { kFullAttention, kSlidingAttention };

// Norms of a block's two branches, attention and MLP: of the branch's input (GPT-2, Llama), of its
// output before it is added to the residual stream (OLMo 2), or of both (Gemma 2).
enum class NormPlacement : std::uint8_t { kPre, kPost, kSandwich };

// Config values, in the order of Activation, and RopeScaling::Type.
inline constexpr std::array<std::string_view, 4> kActivationNames{"gelu", "gelu_new", "relu2",
                                                                  "silu"};
inline constexpr std::array<std::string_view, 6> kRopeTypeNames{"default", "linear",   "dynamic",
                                                                "yarn",    "longrope", "llama3"};

inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";
inline constexpr std::array<std::string_view, 2> kLayerTypeNames{kFullAttention, kSlidingAttention};

// How rotary frequencies are changed for longer sequences; Hugging Face's rope_scaling. Members
// that a type does not name are unused.
struct RopeScaling {
  enum class Type : std::uint8_t {
    kDefault,  // unchanged
    kLinear,   // divided by factor (Chen et al. 2023)
    kDynamic,  // a larger base beyond max_position_embeddings, by factor (NTK-aware)
    kYarn,  // Peng et al. 2023: factor, beta_fast, beta_slow, truncate, attention_factor, mscales
    kLongRope,  // Ding et al. 2024: short_factor or long_factor by pair, attention_factor
    kLlama3,    // Grattafiori et al. 2024: factor, low_freq_factor, high_freq_factor
  };
  Type type = Type::kDefault;
  double factor = 1;
  // Length before the stretching; of kYarn, kLongRope and kLlama3. 0: max_position_embeddings.
  std::int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1, high_freq_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;         // the pairs where the ramp begins and ends are whole numbers
  double attention_factor = 0;  // of cosines and sines; 0: derived from factor
  double mscale = 0, mscale_all_dim = 0;
  std::vector<double> short_factor = {}, long_factor = {};  // [rotated pairs]
  bool operator==(const RopeScaling&) const = default;
};

// Shares of elements that training drops (ops/dropout.h).
struct DropoutRates {
  double attention = 0;  // of the probabilities
  double residual = 0;   // of what a branch adds to the residual stream
  double embedding = 0;

  bool any() const { return attention > 0 || residual > 0 || embedding > 0; }
  bool operator==(const DropoutRates&) const = default;
};

// A decoder with switches for all differences between the families. Names follow Hugging Face;
// members without a config key are fixed by the family.
struct ModelConfig {
  std::string model_type = "llama";  // a ModelFamily: for defaults, display and export
  NormKind norm = NormKind::kRmsNorm;
  NormPlacement norm_placement = NormPlacement::kPre;
  double norm_gain_offset = 0;  // of all norms: y = x / rms (offset + gain)
  PositionKind position = PositionKind::kRotary;
  Activation activation = Activation::kSilu;
  bool gated_mlp = true;  // down(activation(gate(x)) up(x)), otherwise down(activation(up(x)))
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  // Mixture of experts in place of the MLP: in every decoder_sparse_step-th layer, from that one
  // on, except mlp_only_layers (numbers from 0).
  std::int64_t num_experts = 0;  // 0: none
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;  // of an expert
  bool norm_topk_prob = false;             // a token's weights are divided by their sum
  double swiglu_limit = 0;                 // of the experts' gated unit (ops/activation.h); 0: none
  bool expert_bias = false;                // of routers and of all projections of experts
  std::int64_t decoder_sparse_step = 1;
  std::vector<std::int64_t> mlp_only_layers = {};
  std::int64_t first_k_dense_replace = 0;  // layers before this one have no experts
  std::int64_t n_shared_experts = 0;  // of the width of an expert each, in one MLP of every token
  std::string scoring_func = "softmax";      // or "sigmoid": a router's scores of its logits
  double routed_scaling_factor = 1;          // of a token's weights
  std::int64_t n_group = 1, topk_group = 1;  // group-limited routing, see ops::Routing
  bool correction_bias = false;              // added to the scores for the choice of experts
  double router_bias_update_rate = 0;        // of a step, see ops::update_router_bias
  bool router_force_load_balancing = false;  // for benchmarks: tokens take experts in turn
  double router_aux_loss_coef = 0;  // weight of the mean of the layers' load balancing losses
  double router_z_loss_coef = 0;    // weight of the mean of the layers' router z-losses
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  double rope_local_base_freq = 0;  // base in layers with a window, unscaled; 0: as the others
  double partial_rotary_factor = 1;
  bool rope_interleaved = false;    // rotates pairs of adjacent elements
  std::int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0: no windows
  // By layer; empty: the family's pattern.
  std::vector<LayerType> layer_types = {};
  std::vector<std::int64_t> no_rope_layers = {};  // 0: no positions (NoPE, Kazemnejad et al. 2023)
  bool attention_bias = false;                    // of the query, key and value projections
  bool attention_output_bias = false;             // of the output projection
  bool mlp_bias = false;
  bool attention_sinks = false;       // a learned logit per head (ops/attention_sink.h)
  bool qk_norm = false;               // RMSNorm of queries and keys
  bool qk_norm_by_head = true;        // otherwise over all heads together (OLMo 2)
  double query_pre_attn_scalar = 0;   // scores are divided by its square root; 0: head_dim
  double attention_multiplier = 0;    // multiplies scores instead; 0: not
  double attn_logit_softcapping = 0;  // 0: none
  double final_logit_softcapping = 0;
  double embedding_multiplier = 1;
  bool scale_embedding = false;  // multiplies embeddings by sqrt(hidden_size)
  double residual_multiplier = 1;
  double logits_scaling = 1;  // divides logits
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  bool scale_residual_init = true;  // scale output projections by 1 / sqrt(2 layers), as GPT-2

  // Elements of a head that rotary positions rotate.
  std::int64_t rotary_dim() const;
  // Factor of attention scores.
  double attention_scale() const;

  bool operator==(const ModelConfig&) const = default;
};

// Exact number of parameters of the whole model.
std::int64_t parameter_count(const ModelConfig& config);
// Parameters that compute a token: without the experts that its router does not choose. All of a
// dense model.
std::int64_t active_parameter_count(const ModelConfig& config);
// Parameters of all experts, without their routers.
std::int64_t expert_parameter_count(const ModelConfig& config);

}  // namespace trireme
