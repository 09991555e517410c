#include "model/ops/cpu/matmul_own.h"

#include <omp.h>

#include <algorithm>
#include <limits>

#include "model/base/error.h"
#include "model/ops/cpu/simd/isa.h"
#include "model/ops/cpu/simd/matmul.h"

namespace trireme::ops::cpu {
namespace {

// Increment when the bits or speed of the kernels change: timings are then repeated.
constexpr int kVersion = 1;
// c is divided between threads at multiples of these, so that few tiles are partial.
constexpr std::int64_t kRows = 4, kColumns = 32;
// Cost of packing an element of a or b, in multiplications.
constexpr std::int64_t kPacking = 8;

std::int64_t cuts(std::int64_t extent, std::int64_t unit) {
  return (extent + unit - 1) / unit;
}

// Number of threads along the rows and along the columns of c.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

// The grid whose largest rectangle takes the least time.
Grid grid_of(const MatMulShape& s) {
  Grid best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t rows = 1; rows <= s.threads; ++rows) {
    if (s.threads % rows != 0) continue;
    const Grid grid{rows, s.threads / rows};
    const std::int64_t m = cuts(cuts(s.m, kRows), grid.rows) * kRows;
    const std::int64_t n = cuts(cuts(s.n, kColumns), grid.columns) * kColumns;
    const std::int64_t takes = m * n + kPacking * (m + n);
    if (takes < least) least = takes, best = grid;
  }
  return best;
}

// Range number `i` of `count` of `extent`.
struct Range {
  std::int64_t first = 0, last = 0;
};
Range share(std::int64_t extent, std::int64_t unit, std::int64_t i, std::int64_t count) {
  const std::int64_t units = cuts(extent, unit);
  return {std::min(extent, units * i / count * unit),
          std::min(extent, units * (i + 1) / count * unit)};
}

MatMulPart part_of(const MatMul& product, Range rows, Range columns) {
  const MatMulShape& s = product.shape;
  MatMulPart part;
  part.m = rows.last - rows.first, part.n = columns.last - columns.first, part.k = s.k;
  part.a_row = s.transpose_a ? 1 : s.lda, part.a_column = s.transpose_a ? s.lda : 1;
  part.b_row = s.transpose_b ? 1 : s.n, part.b_column = s.transpose_b ? s.k : 1;
  part.ldc = s.n;
  part.a = reinterpret_cast<const float*>(product.a) + rows.first * part.a_row;
  part.b = reinterpret_cast<const float*>(product.b) + columns.first * part.b_column;
  part.c = reinterpret_cast<float*>(product.c) + rows.first * s.n + columns.first;
  if (product.bias) part.bias = reinterpret_cast<const float*>(product.bias) + columns.first;
  part.add = s.accumulate == Accumulate::kAdd;
  return part;
}

}  // namespace

bool OwnMatMul::takes(const MatMulShape& shape) const {
  return shape.in == DType::kF32 && shape.out == DType::kF32;
}

std::string OwnMatMul::name() const {
  return say("trireme ", kVersion, " ", simd::name_of(simd::selected()));
}

void OwnMatMul::run(const MatMul& product) {
  const MatMulShape& s = product.shape;
  const Grid grid = grid_of(s);
  const std::size_t bytes = static_cast<std::size_t>(s.threads * kMatMulWorkspace) * sizeof(float);
  if (workspace_.bytes() < bytes) workspace_ = Memory(bytes, Device{});
  float* const workspace = reinterpret_cast<float*>(workspace_.data());
#pragma omp parallel for schedule(static, 1) num_threads(s.threads)
  for (int thread = 0; thread < s.threads; ++thread) {
    const MatMulPart part = part_of(product, share(s.m, kRows, thread / grid.columns, grid.rows),
                                    share(s.n, kColumns, thread % grid.columns, grid.columns));
    if (part.m == 0 || part.n == 0) continue;
    matmul(part, workspace + thread * kMatMulWorkspace);
  }
}

}  // namespace trireme::ops::cpu
