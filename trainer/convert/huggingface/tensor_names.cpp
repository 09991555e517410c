#include "trainer/convert/huggingface/tensor_names.h"

#include <array>

#include "model/base/error.h"
#include "model/stage/layer_config.h"

namespace trireme {
namespace {

class Names {
 public:
  explicit Names(const ModelConfig& model)
      : m_(model),
        queries_(model.num_attention_heads * model.head_dim),
        keys_(model.num_key_value_heads * model.head_dim) {}

  std::vector<ForeignTensor> gpt2() {
    add("transformer.wte.weight", "embedding.weight", {m_.vocab_size, m_.hidden_size});
    add("transformer.wpe.weight", "position.weight", {m_.max_position_embeddings, m_.hidden_size});
    for (std::int64_t i = 0; i < m_.num_hidden_layers; ++i) {
      const std::string there = say("transformer.h.", i, "."), here = say("layers.", i, ".");
      norm(there + "ln_1", here + "attention_norm");
      for (const char* end : {".weight", ".bias"}) {
        const bool is_weight = std::string_view(end) == ".weight";
        begin(there + "attn.c_attn" + end, is_weight);
        for (const char* part : {"q", "k", "v"}) {
          append(here + "attention." + part + end,
                 is_weight ? Shape{queries_, m_.hidden_size} : Shape{queries_});
        }
      }
      convolution(there + "attn.c_proj", here + "attention.o", m_.hidden_size, queries_);
      norm(there + "ln_2", here + "mlp_norm");
      convolution(there + "mlp.c_fc", here + "mlp.up", m_.intermediate_size, m_.hidden_size);
      convolution(there + "mlp.c_proj", here + "mlp.down", m_.hidden_size, m_.intermediate_size);
    }
    norm("transformer.ln_f", "norm");
    head();
    return std::move(tensors_);
  }

  std::vector<ForeignTensor> rotary() {
    // Phi-3 and GLM-4 store gate and up as one tensor, Phi-3 also queries, keys and values.
    const bool fuses_qkv = m_.model_type == "phi3",
               fuses_mlp = fuses_qkv || m_.model_type == "glm4";
    add("model.embed_tokens.weight", "embedding.weight", {m_.vocab_size, m_.hidden_size});
    const std::vector<LayerConfig> layers = layer_configs(m_);
    for (std::int64_t i = 0; i < m_.num_hidden_layers; ++i) {
      const std::string there = say("model.layers.", i, "."), here = say("layers.", i, ".");
      const std::string attention = there + "self_attn.", own = here + "attention.";
      if (m_.norm_placement != NormPlacement::kPost) {
        norm(there + "input_layernorm", here + "attention_norm");
      }
      if (fuses_qkv) {
        begin(attention + "qkv_proj.weight");
        for (const char* part : {"q", "k", "v"}) {
          append(own + part + ".weight", {*part == 'q' ? queries_ : keys_, m_.hidden_size});
        }
      } else {
        for (const char* part : {"q", "k", "v"}) {
          linear(attention + part + "_proj", own + part, *part == 'q' ? queries_ : keys_,
                 m_.hidden_size, m_.attention_bias);
        }
      }
      linear(attention + "o_proj", own + "o", m_.hidden_size, queries_, m_.attention_output_bias);
      for (const char* part : {"q", "k"}) {
        if (!m_.qk_norm) break;
        const std::int64_t all = *part == 'q' ? queries_ : keys_;
        add(attention + part + "_norm.weight", own + part + "_norm.weight",
            {m_.qk_norm_by_head ? m_.head_dim : all});
      }
      if (m_.attention_sinks) add(attention + "sinks", own + "sinks", {m_.num_attention_heads});
      norms_of_mlp(there, here);
      if (layers[i].has_experts && m_.model_type == "gpt_oss") {
        fused_experts(there + "mlp.", here + "mlp.");
      } else if (layers[i].has_experts) {
        experts(there, here);
      } else if (fuses_mlp) {
        begin(there + "mlp.gate_up_proj.weight");
        for (const char* part : {"gate", "up"}) {
          append(here + "mlp." + part + ".weight", {m_.intermediate_size, m_.hidden_size});
        }
      } else {
        for (const char* part : {"gate", "up"}) {
          linear(there + "mlp." + part + "_proj", here + "mlp." + part, m_.intermediate_size,
                 m_.hidden_size, m_.mlp_bias);
        }
      }
      if (!layers[i].has_experts) {
        linear(there + "mlp.down_proj", here + "mlp.down", m_.hidden_size, m_.intermediate_size,
               m_.mlp_bias);
      }
    }
    norm("model.norm", "norm");
    head();
    return std::move(tensors_);
  }

 private:
  // "post_attention_layernorm" is the norm before the MLP where there is none after attention, and
  // in GLM-4.
  void norms_of_mlp(const std::string& there, const std::string& here) {
    const std::string after_attention = there + "post_attention_layernorm",
                      after_mlp = there + "post_feedforward_layernorm";
    switch (m_.norm_placement) {
      case NormPlacement::kPre:
        return norm(after_attention, here + "mlp_norm");
      case NormPlacement::kPost:
        norm(after_attention, here + "attention_post_norm");
        return norm(after_mlp, here + "mlp_post_norm");
      case NormPlacement::kSandwich:
        if (m_.model_type == "glm4") {
          norm(there + "post_self_attn_layernorm", here + "attention_post_norm");
          norm(after_attention, here + "mlp_norm");
          return norm(there + "post_mlp_layernorm", here + "mlp_post_norm");
        }
        norm(after_attention, here + "attention_post_norm");
        norm(there + "pre_feedforward_layernorm", here + "mlp_norm");
        return norm(after_mlp, here + "mlp_post_norm");
    }
  }

  void experts(const std::string& there, const std::string& here) {
    const bool is_mixtral = m_.model_type == "mixtral";
    const std::string block = there + (is_mixtral ? "block_sparse_moe." : "mlp.");
    const std::array<const char*, 3> names =
        is_mixtral ? std::array{"w1", "w3", "w2"} : std::array{"gate_proj", "up_proj", "down_proj"};
    const std::int64_t width = m_.moe_intermediate_size;
    add(block + "gate.weight", here + "mlp.router.weight", {m_.num_experts, m_.hidden_size});
    if (m_.correction_bias) {
      add(block + "gate.e_score_correction_bias", here + "mlp.router.correction_bias",
          {m_.num_experts});
      tensors_.back().is_float32 = true;
    }
    const std::int64_t shared = m_.n_shared_experts * width;
    if (shared > 0) {
      const std::string one = block + "shared_experts.", own = here + "mlp.shared_experts";
      add(one + "gate_proj.weight", own + ".gate.weight", {shared, m_.hidden_size});
      add(one + "up_proj.weight", own + ".up.weight", {shared, m_.hidden_size});
      add(one + "down_proj.weight", own + ".down.weight", {m_.hidden_size, shared});
    }
    for (std::int64_t e = 0; e < m_.num_experts; ++e) {
      const std::string one = say(block, "experts.", e, "."), own = say(here, "mlp.experts.", e);
      add(one + names[0] + ".weight", own + ".gate.weight", {width, m_.hidden_size});
      add(one + names[1] + ".weight", own + ".up.weight", {width, m_.hidden_size});
      add(one + names[2] + ".weight", own + ".down.weight", {m_.hidden_size, width});
    }
  }

  // gpt-oss: all experts in one tensor.
  void fused_experts(const std::string& there, const std::string& here) {
    const std::int64_t width = m_.moe_intermediate_size, hidden = m_.hidden_size;
    linear(there + "router", here + "router", m_.num_experts, hidden, true);
    slabs(there + "experts.gate_up_proj", here, {"gate", "up"}, ".weight", {width, hidden});
    slabs(there + "experts.gate_up_proj_bias", here, {"gate", "up"}, ".bias", {width});
    slabs(there + "experts.down_proj", here, {"down"}, ".weight", {hidden, width});
    slabs(there + "experts.down_proj_bias", here, {"down"}, ".bias", {hidden});
  }
  // The parameters `parts` of each expert, whose rows alternate.
  void slabs(const std::string& name, const std::string& here,
             const std::vector<const char*>& parts, const char* end, const Shape& shape) {
    begin(name, true);
    ForeignTensor& tensor = tensors_.back();
    const std::int64_t step = std::ssize(parts), rows = step * shape[0];
    tensor.shape =
        shape.rank() == 2 ? Shape{m_.num_experts, shape[1], rows} : Shape{m_.num_experts, rows};
    for (std::int64_t e = 0; e < m_.num_experts; ++e) {
      for (std::int64_t i = 0; i < step; ++i) {
        tensor.parts.push_back({.parameter = say(here, "experts.", e, ".", parts[i], end),
                                .shape = shape,
                                .first_row = i,
                                .row_step = step,
                                .slab = e});
      }
    }
  }

  void begin(const std::string& name, bool transposed = false) {
    tensors_.push_back({.name = name, .parts = {}, .transposed = transposed, .shape = {}});
  }
  void append(const std::string& parameter, Shape shape) {
    ForeignTensor& tensor = tensors_.back();
    const int rows = tensor.transposed ? 1 : 0;  // dimension of the rows in the file
    const std::int64_t first = tensor.parts.empty() ? 0 : tensor.shape[rows];
    tensor.parts.push_back({parameter, shape, first});
    tensor.shape = tensor.transposed ? Shape{shape[1], shape[0]} : shape;
    tensor.shape[rows] = first + shape[0];
  }
  void add(const std::string& name, const std::string& parameter, Shape shape) {
    begin(name);
    append(parameter, shape);
  }
  void norm(const std::string& name, const std::string& parameter) {
    add(name + ".weight", parameter + ".weight", {m_.hidden_size});
    if (m_.norm == NormKind::kLayerNorm) {
      add(name + ".bias", parameter + ".bias", {m_.hidden_size});
    }
  }
  void linear(const std::string& name, const std::string& parameter, std::int64_t out,
              std::int64_t in, bool bias) {
    add(name + ".weight", parameter + ".weight", {out, in});
    if (bias) add(name + ".bias", parameter + ".bias", {out});
  }
  void convolution(const std::string& name, const std::string& parameter, std::int64_t out,
                   std::int64_t in) {
    begin(name + ".weight", true);
    append(parameter + ".weight", {out, in});
    add(name + ".bias", parameter + ".bias", {out});
  }
  void head() {
    if (m_.tie_word_embeddings) return;
    add("lm_head.weight", "head.weight", {m_.vocab_size, m_.hidden_size});
  }

  const ModelConfig& m_;
  const std::int64_t queries_, keys_;
  std::vector<ForeignTensor> tensors_;
};

}  // namespace

std::vector<ForeignTensor> foreign_tensors(const ModelConfig& model) {
  Names names(model);
  return model.model_type == "gpt2" ? names.gpt2() : names.rotary();
}

bool may_be_ignored(const std::string& name, const ModelConfig& model) {
  if (name == "lm_head.weight") return model.tie_word_embeddings;
  if (model.model_type == "gpt2") {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  }
  if (model.model_type == "glm4_moe") {
    // The layer after the last predicts further tokens (MTP), which transformers leaves out, too.
    if (name.starts_with(say("model.layers.", model.num_hidden_layers, "."))) return true;
  }
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace trireme
