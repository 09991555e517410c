#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Rows of (token, choice) pairs sorted by expert, and in token order within an expert: the operands
// of experts' products, without padding (Gale et al. 2022, "MegaBlocks"). Pair p = token * top_k +
// choice.
struct ExpertRows {
  Tensor starts = {};  // [experts + 1] I32: expert e has rows [starts[e], starts[e + 1])
  Tensor pairs = {};   // [tokens * top_k] I32: pair of each row
  Tensor row_of = {};  // [tokens, top_k] I32: row of each pair
};

// Sorts by experts [tokens, top_k] I32.
void order_by_expert(Stream&, const ExpertRows& rows, Tensor experts);

// y [rows, width]: row r = x [tokens, width] at the token of pairs[r].
void gather_tokens(Stream&, Tensor y, Tensor x, const ExpertRows& rows);

// y [tokens, width]: for each token the sum over its choices, in order, of weight * row, summed in
// the accumulator dtype. weights [tokens, top_k] in the accumulator dtype; empty: 1.
void combine_rows(Stream&, Tensor y, Tensor x, Tensor weights, const ExpertRows& rows);

// The gradient of the weights for experts with outputs act W^T, from dact = the gradient of act
// without weights: dweights [tokens, top_k] (accumulator) at a row's pair = the dot product of
// its rows of act and dact [rows, width]. Then multiplies these rows of act and dact by the
// weight: the weight gradient's operand, and the gradient of act. Without rows.pairs both tables
// are [rows], in order of the rows.
void weigh_rows_backward(Stream&, Tensor dweights, Tensor act, Tensor dact, Tensor weights,
                         const ExpertRows& rows);

}  // namespace trireme::ops
