#include "trainer/engine/divide_layers.h"

#include "parallel/pipeline/balance.h"

namespace trireme {
namespace {

// In products of a weight with a token's activation; attention has those of its keys. The
// embedding is a copy.
LayerCosts layer_costs(const ModelConfig& m, std::int64_t seq_len) {
  const std::int64_t query = m.num_attention_heads * m.head_dim;
  const std::int64_t keys = m.num_key_value_heads * m.head_dim;
  const std::int64_t into_mlp = m.activation == ActivationKind::kSwiGlu ? 2 : 1;
  const std::int64_t block = m.hidden_size * (2 * query + 2 * keys) +
                             m.hidden_size * m.intermediate_size * (into_mlp + 1) + query * seq_len;
  return {.blocks = std::vector<double>(static_cast<std::size_t>(m.num_hidden_layers),
                                        static_cast<double>(block)),
          .embedding = 0,
          .head = static_cast<double>(m.hidden_size * m.vocab_size)};
}

}  // namespace

std::vector<std::int64_t> divide_layers(const ModelConfig& model, std::int64_t seq_len,
                                        const std::vector<std::int64_t>& list, int stages) {
  if (list.empty()) return balance_blocks(layer_costs(model, seq_len), stages);
  return check_blocks_per_stage(list, model.num_hidden_layers, stages);
}

}  // namespace trireme
