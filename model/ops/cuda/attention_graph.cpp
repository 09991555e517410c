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
// A part of the heads in a row, or all.
struct Layout {
  const AttentionShape& shape;
  const Heads& in_row;
};
Tensor_attributes& lay_queries(Tensor_attributes& tensor, AttentionTensor uid, const Layout& of) {
  return lay_heads(tensor, uid, of.shape, of.shape.heads.heads, of.in_row.qkv());
}
Tensor_attributes& lay_keys(Tensor_attributes& tensor, AttentionTensor uid, const Layout& of) {
  return lay_heads(tensor, uid, of.shape, of.shape.heads.kv_heads, of.in_row.qkv());
}
Tensor_attributes& lay_out(Tensor_attributes& tensor, AttentionTensor uid, const Layout& of) {
  return lay_heads(tensor, uid, of.shape, of.shape.heads.heads, of.in_row.query());
}
// cuDNN's backward before 9.26 supports only this order.
Tensor_attributes& lay_lse(Tensor_attributes& tensor, const AttentionShape& shape) {
  const std::int64_t heads = shape.heads.heads;
  return tensor.set_uid(kLse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({shape.batch, heads, shape.seq, 1})
      .set_stride({heads * shape.seq, shape.seq, 1, 1});
}

Operand input(Graph& graph, const char* name, AttentionTensor uid, const Layout& of,
              decltype(lay_out)& lay) {
  Tensor_attributes tensor;
  return graph.tensor(lay(tensor, uid, of).set_name(name));
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

void add_forward(Graph& graph, const Layout& of, const Inputs& in) {
  auto attributes = causal<fe::graph::SDPA_attributes>("attention", of.shape);
  attributes.set_generate_stats(true);
  const auto [out, lse] = graph.sdpa(in.queries, in.keys, in.values, std::move(attributes));
  lay_out(*out, kOut, of).set_output(true);
  lay_lse(*lse, of.shape).set_output(true);
}

void add_backward(Graph& graph, const Layout& of, const Inputs& in) {
  const Operand out = input(graph, "out", kOut, of, lay_out);
  const Operand dout = input(graph, "dout", kDout, of, lay_out);
  Tensor_attributes tensor;
  const Operand lse = graph.tensor(lay_lse(tensor, of.shape).set_name("lse"));
  auto attributes = causal<fe::graph::SDPA_backward_attributes>("attention_backward", of.shape);
  attributes.set_deterministic_algorithm(true);
  const auto [dqueries, dkeys, dvalues] =
      graph.sdpa_backward(in.queries, in.keys, in.values, out, dout, lse, std::move(attributes));
  lay_queries(*dqueries, kDqueries, of).set_output(true);
  lay_keys(*dkeys, kDkeys, of).set_output(true);
  lay_keys(*dvalues, kDvalues, of).set_output(true);
}

}  // namespace

void add_attention(Graph& graph, AttentionPass pass, const AttentionShape& shape, DType dtype,
                   const Heads& in_row) {
  graph.set_io_data_type(dtype == DType::kF16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Layout of{shape, in_row};
  const Inputs in{input(graph, "queries", kQueries, of, lay_queries),
                  input(graph, "keys", kKeys, of, lay_keys),
                  input(graph, "values", kValues, of, lay_keys)};
  (pass == AttentionPass::kForward ? add_forward : add_backward)(graph, of, in);
}

}  // namespace trireme::ops::cuda
