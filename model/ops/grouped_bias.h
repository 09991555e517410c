#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Biases of several groups of rows, each with one of its own: bias [groups, width], or fewer, as
// matrices of grouped_gemm. `starts`: as there. Rows of no group are neither read nor written.

// y [rows, width] += the bias of the row's group. Without starts all rows are of one group.
void grouped_bias(Stream&, Tensor y, Tensor bias, Tensor starts);

// Weights of rows in the sum of a token's experts (expert_rows.h): row r has weights[pairs[r]].
struct RowWeights {
  Tensor weights = {};  // [pairs] in the accumulator dtype; empty: every row has 1
  Tensor pairs = {};    // [rows] I32; empty: weights are in order of the rows
};

// dbias [groups, width] = or += the sum of weight * dy over the rows of each group, in the
// accumulator dtype; dy [rows, width]. An empty group's sum is zero. `calls`: how many divide dy's
// rows among them, of which a planning stream records an equal share each.
void grouped_bias_backward(Stream&, Tensor dbias, Tensor dy, const RowWeights& weights,
                           Tensor starts, Accumulate accumulate, std::int64_t calls = 1);

// What the biases add to the gradient of weights: dweights [pairs] += at each row's pair, or
// without pairs at the row, the dot product of the row of dy, without weights, with the bias of its
// group.
void grouped_bias_dots(Stream&, Tensor dweights, Tensor dy, Tensor bias, Tensor pairs,
                       Tensor starts);

}  // namespace trireme::ops
