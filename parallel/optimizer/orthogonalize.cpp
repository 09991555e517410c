#include "parallel/optimizer/orthogonalize.h"

#include <algorithm>
#include <utility>

#include "model/ops/direction.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "model/ops/norm_ratio.h"
#include "model/ops/optimizer.h"

namespace trireme {
namespace {

constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315, kEpsilon = 1e-7;

}  // namespace

Orthogonaliser::Orthogonaliser(std::int64_t most, std::int64_t side, DType dtype, Arena& workspace)
    : x_(workspace.take({most}, dtype)),
      y_(workspace.take({most}, dtype)),
      gram_(workspace.take({side * side}, dtype)),
      polynomial_(workspace.take({side * side}, dtype)),
      squares_(workspace.take({ops::norm_chunks(most)}, DType::kF64)),
      inverse_(workspace.take({1}, dtype)) {}

Tensor Orthogonaliser::run(Stream& stream, std::int64_t rows, std::int64_t columns,
                           std::int64_t steps) const {
  const std::int64_t count = rows * columns, side = std::min(rows, columns);
  const bool tall = rows > columns;
  Tensor x = x_.slice(0, count).reshaped({rows, columns});
  Tensor y = y_.slice(0, count).reshaped({rows, columns});
  const Tensor gram = gram_.slice(0, side * side).reshaped({side, side});
  const Tensor polynomial = polynomial_.slice(0, side * side).reshaped({side, side});
  const Tensor squares = squares_.slice(0, ops::norm_chunks(count));
  ops::zero(stream, squares);
  ops::add_chunk_squares(stream, squares, x);
  ops::inverse_norm(stream, inverse_, squares, kEpsilon);
  ops::axpby(stream, x, x, {.factor = inverse_});
  for (std::int64_t step = 0; step < steps; ++step) {
    // With the Gram matrix of the smaller side: (a + b x x' + c (x x')^2) x = x (a + b x' x + c (x'
    // x)^2).
    ops::gemm(stream, gram, x, x, {.transpose_a = tall, .transpose_b = !tall});
    ops::gemm(stream, polynomial, gram, gram, {});
    ops::axpby(stream, polynomial, gram, {.alpha = kCubic, .beta = kQuintic});
    ops::gemm(stream, y, tall ? x : polynomial, tall ? polynomial : x, {});
    ops::axpby(stream, y, x, {.alpha = kLinear, .beta = 1});
    std::swap(x, y);
  }
  return x;
}

}  // namespace trireme
