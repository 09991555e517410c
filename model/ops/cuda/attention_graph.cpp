#include "model/ops/cuda/attention_graph.h"

#include <memory>
#include <utility>

namespace trireme::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Operand = std::shared_ptr<Tensor_attributes>;

// `heads` of a [tokens, row] tensor.
Tensor_attributes& lay_heads(Tensor_attributes& tensor, AttentionTensor uid,
                             const AttentionShape& shape, std::int64_t heads, std::int64_t row) {
  const std::int64_t width = shape.heads.width;
  return tensor.set_uid(uid)
      .set_dim({shape.batch, heads, shape.seq, width})
      .set_stride({shape.seq * row, width, row, 1});
}
Tensor_attributes& lay_queries(Tensor_attributes& tensor, AttentionTensor uid,
                               const AttentionShape& shape) {
  return lay_heads(tensor, uid, shape, shape.heads.heads, shape.heads.qkv());
}
Tensor_attributes& lay_keys(Tensor_attributes& tensor, AttentionTensor uid,
                            const AttentionShape& shape) {
  return lay_heads(tensor, uid, shape, shape.heads.kv_heads, shape.heads.qkv());
}
Tensor_attributes& lay_out(Tensor_attributes& tensor, AttentionTensor uid,
                           const AttentionShape& shape) {
  return lay_heads(tensor, uid, shape, shape.heads.heads, shape.heads.query());
}
// cuDNN's backward before 9.26 supports only this order.
Tensor_attributes& lay_lse(Tensor_attributes& tensor, const AttentionShape& shape) {
  const std::int64_t heads = shape.heads.heads;
  return tensor.set_uid(kLse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({shape.batch, heads, shape.seq, 1})
      .set_stride({heads * shape.seq, shape.seq, 1, 1});
}

Operand input(Graph& graph, const char* name, AttentionTensor uid, const AttentionShape& shape,
              decltype(lay_out)& lay) {
  Tensor_attributes tensor;
  return graph.tensor(lay(tensor, uid, shape).set_name(name));
}

template <class Attributes>
Attributes causal(const char* name, const AttentionShape& shape) {
  Attributes attributes;
  attributes.set_name(name);
  attributes.set_attn_scale(static_cast<float>(shape.scale))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  return attributes;
}

struct Inputs {
  Operand queries, keys, values;
};

void add_forward(Graph& graph, const AttentionShape& shape, const Inputs& in) {
  auto attributes = causal<fe::graph::SDPA_attributes>("attention", shape);
  attributes.set_generate_stats(true);
  const auto [out, lse] = graph.sdpa(in.queries, in.keys, in.values, std::move(attributes));
  lay_out(*out, kOut, shape).set_output(true);
  lay_lse(*lse, shape).set_output(true);
}

void add_backward(Graph& graph, const AttentionShape& shape, const Inputs& in) {
  const Operand out = input(graph, "out", kOut, shape, lay_out);
  const Operand dout = input(graph, "dout", kDout, shape, lay_out);
  Tensor_attributes tensor;
  const Operand lse = graph.tensor(lay_lse(tensor, shape).set_name("lse"));
  auto attributes = causal<fe::graph::SDPA_backward_attributes>("attention_backward", shape);
  attributes.set_deterministic_algorithm(true);
  const auto [dqueries, dkeys, dvalues] =
      graph.sdpa_backward(in.queries, in.keys, in.values, out, dout, lse, std::move(attributes));
  lay_queries(*dqueries, kDqueries, shape).set_output(true);
  lay_keys(*dkeys, kDkeys, shape).set_output(true);
  lay_keys(*dvalues, kDvalues, shape).set_output(true);
}

}  // namespace

void add_attention(Graph& graph, AttentionPass pass, const AttentionShape& shape, DType dtype) {
  graph.set_io_data_type(dtype == DType::kF16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Inputs in{input(graph, "queries", kQueries, shape, lay_queries),
                  input(graph, "keys", kKeys, shape, lay_keys),
                  input(graph, "values", kValues, shape, lay_keys)};
  (pass == AttentionPass::kForward ? add_forward : add_backward)(graph, shape, in);
}

}  // namespace trireme::ops::cuda
