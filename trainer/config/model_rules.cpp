#include "model/base/error.h"
#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"
#include "trainer/config/flavors.h"
#include "trainer/config/option.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

class ModelRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void model() {
    required();
    meaningless_keys();
    const ModelConfig& m = c_.model;
    if (loaded_.origin("model.model_type").is_given() && !c_.flavor.empty()) family_of_the_flavor();
    const bool derives_head_dim = loaded_.origin("model.head_dim").kind == Origin::Kind::kDerived;
    if (m.num_attention_heads > 0 && derives_head_dim) {
      check(m.hidden_size % m.num_attention_heads == 0,
            {"model.num_attention_heads", "model.hidden_size"},
            say("does not divide hidden_size = ", m.hidden_size, "; or give head_dim"));
    }
    if (m.num_key_value_heads > 0) {
      check(m.num_attention_heads % m.num_key_value_heads == 0,
            {"model.num_key_value_heads", "model.num_attention_heads"},
            say("does not divide num_attention_heads = ", m.num_attention_heads));
    }
    if (m.position == PositionKind::kRotary) {
      check(m.head_dim % 2 == 0, {"model.head_dim", "model.hidden_size"},
            "rotary positions need an even head_dim");
      check(m.head_dim % 2 != 0 || m.rotary_dim() % 2 == 0, {"model.partial_rotary_factor"},
            say("of head_dim = ", m.head_dim, " leaves ", m.rotary_dim(),
                " elements for RoPE, which rotates pairs"));
      const auto pairs = static_cast<std::size_t>(m.rotary_dim() / 2);
      const RopeScaling& scaling = m.rope_scaling;
      if (scaling.type == RopeScaling::Type::kLongRope) {
        check(scaling.short_factor.size() == pairs && scaling.long_factor.size() == pairs,
              {"model.rope_scaling", "model.partial_rotary_factor"},
              say("short_factor and long_factor need ", pairs,
                  " numbers, one for each rotated pair of a head, not ",
                  scaling.short_factor.size(), " and ", scaling.long_factor.size()));
      }
      // It would be training.seq_len, the length after the extension.
      const bool derives_length =
          loaded_.origin("model.max_position_embeddings").kind == Origin::Kind::kDerived;
      check(scaling.type != RopeScaling::Type::kYarn || !derives_length ||
                scaling.original_max_position_embeddings > 0,
            {"model.rope_scaling", "model.max_position_embeddings"},
            "needs original_max_position_embeddings, the sequence length before the extension");
    } else {
      check(c_.training.seq_len <= m.max_position_embeddings,
            {"training.seq_len", "model.max_position_embeddings"},
            say("longer than the model's learned positions, max_position_embeddings = ",
                m.max_position_embeddings));
    }
    layers();
    experts();
  }

 private:
  // Lists by layer.
  void layers() {
    const ModelConfig& m = c_.model;
    const auto count = static_cast<std::size_t>(m.num_hidden_layers);
    const auto fits = [&](std::size_t size, const char* key) {
      check(size == 0 || size == count, {key, "model.num_hidden_layers"},
            say("has ", size, " entries for num_hidden_layers = ", count));
    };
    fits(m.layer_types.size(), "model.layer_types");
    fits(m.no_rope_layers.size(), "model.no_rope_layers");
    const bool is_sliding = std::find(m.layer_types.begin(), m.layer_types.end(),
                                      LayerType::kSlidingAttention) != m.layer_types.end();
    check(!is_sliding || m.sliding_window > 0, {"model.layer_types", "model.sliding_window"},
          say(kSlidingAttention, " needs sliding_window, the tokens that a query sees"));
  }

  void experts() {
    const ModelConfig& m = c_.model;
    if (find_family(m.model_type).defaults.num_experts == 0) return;
    if (refused_any({"model.decoder_sparse_step"})) return;
    check(m.swiglu_limit == 0 || m.activation == Activation::kSilu, {"model.hidden_act"},
          say("experts of type ", m.model_type, " compute silu; remove it"));
    check(m.num_experts_per_tok <= m.num_experts,
          {"model.num_experts_per_tok", "model.num_experts"},
          say("a token cannot choose more than num_experts = ", m.num_experts));
    for (const std::int64_t layer : m.mlp_only_layers) {
      check(
          layer < m.num_hidden_layers, {"model.mlp_only_layers", "model.num_hidden_layers"},
          say("has layer ", layer, " of a model whose layers are 0 to ", m.num_hidden_layers - 1));
    }
    check(m.num_hidden_layers <= 0 || layers_with_experts(m) > 0,
          {"model.mlp_only_layers", "model.decoder_sparse_step", "model.first_k_dense_replace",
           "model.num_hidden_layers"},
          "leaves no layer with experts");
    expert_groups();
  }

  void expert_groups() {
    const ModelConfig& m = c_.model;
    if (m.n_group == 1 && m.topk_group == 1) return;
    if (refused_any({"model.n_group", "model.topk_group", "model.num_experts"})) return;
    check(m.num_experts % m.n_group == 0 && m.num_experts >= 2 * m.n_group,
          {"model.n_group", "model.num_experts"},
          say("does not divide num_experts = ", m.num_experts,
              " into groups of at least 2, whose two best experts are compared"));
    check(m.topk_group <= m.n_group, {"model.topk_group", "model.n_group"},
          say("a token cannot choose among more than n_group = ", m.n_group, " groups"));
    const std::int64_t reachable = m.topk_group * (m.num_experts / m.n_group);
    check(m.topk_group > m.n_group || m.num_experts_per_tok <= reachable,
          {"model.num_experts_per_tok", "model.topk_group", "model.n_group"},
          say("a token cannot choose more than the ", reachable,
              " experts of topk_group = ", m.topk_group, " groups; increase topk_group"));
  }

  void required() {
    const ModelConfig& m = c_.model;
    const auto need = [this](std::int64_t size, const char* key) {
      const Keys keys{key, "model.flavor", "model.model_type"};
      if (size != 0 || refused_any(keys)) return;
      complaints_.add({{}, key, "", "missing; set it, or set model.flavor"});
      complaints_.refuse(key);
    };
    need(m.vocab_size, "model.vocab_size");
    need(m.hidden_size, "model.hidden_size");
    need(m.num_hidden_layers, "model.num_hidden_layers");
    need(m.num_attention_heads, "model.num_attention_heads");
    const bool is_sparse = find_family(m.model_type).defaults.num_experts > 0;
    if (is_sparse) need(m.moe_intermediate_size, "model.moe_intermediate_size");
    const bool has_mlp = find_option("model.intermediate_size")->applies(c_);
    if (find_family(m.model_type).mlp_ratio == 0 && has_mlp) {
      need(m.intermediate_size, "model.intermediate_size");
    }
  }

  void meaningless_keys() {
    for (const Option& option : options()) {
      if (option.applies == nullptr || option.applies(c_)) continue;
      const bool given = loaded_.origin(option.key).is_given();
      if (option.section() == "model") {
        check(!given, {option.key, "model.model_type", "model.flavor"},
              say("does not apply to models of type ", c_.model.model_type, "; remove it"), false);
      } else if (option.section() == "training") {
        check(!given, {option.key, "training.dtype"},
              say("does not apply to training.dtype = ", to_toml(c_.training.dtype), "; remove it"),
              false);
      } else if (option.section() == "data") {
        check(!given, {option.key, "data.order"},
              say("does not apply to data.order = ", to_toml(c_.data.order), "; remove it"), false);
      } else if (option.key == "optimizer.stochastic_rounding") {
        check(!given, {option.key, "training.dtype"},
              say("does not apply to weights in ", c_.training.dtype, "; remove it"), false);
      } else {
        check(!given, {option.key, "optimizer.name"},
              say("does not apply to ", c_.optimizer.name, "; remove it"), false);
      }
    }
  }

  void family_of_the_flavor() {
    const auto flavor = find_flavor(c_.flavor);
    if (!flavor) return;
    check(c_.model.model_type == flavor->model_type, {"model.model_type", "model.flavor"},
          say("flavor ", c_.flavor, " is of type ", flavor->model_type, "; remove one of them"));
  }
};

}  // namespace

void model_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  ModelRules rules(loaded, complaints, purpose);
  rules.model();
}

}  // namespace trireme
