#pragma once
#include "model/stage/model_config.h"

namespace trireme::test {

// Two blocks in the way of GPT-2 or of Qwen3, small enough for central differences.
inline ModelConfig tiny(bool gpt2) {
  ModelConfig m;
  m.norm = gpt2 ? NormKind::kLayerNorm : NormKind::kRmsNorm;
  m.position = gpt2 ? PositionKind::kLearned : PositionKind::kRotary;
  m.activation = gpt2 ? ActivationKind::kGeluTanh : ActivationKind::kSwiGlu;
  m.attention_bias = m.attention_output_bias = m.mlp_bias = gpt2;
  m.qk_norm = !gpt2;
  m.tie_word_embeddings = gpt2;
  m.vocab_size = 9;
  m.hidden_size = 8;
  m.intermediate_size = 10;
  m.num_hidden_layers = 2;
  m.num_attention_heads = 2;
  m.num_key_value_heads = gpt2 ? 2 : 1;
  m.head_dim = 4;
  m.max_position_embeddings = 5;
  return m;
}

}  // namespace trireme::test
