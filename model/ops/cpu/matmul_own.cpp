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

// Number of threads along the rows of all products' c and along its columns.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

// The grid whose largest rectangle takes the least time; products have `rows` rows in all.
Grid grid_of(std::int64_t products, std::int64_t rows, std::int64_t columns, std::int64_t threads) {
  Grid best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t along = 1; along <= threads; ++along) {
    if (threads % along != 0) continue;
    const Grid grid{along, threads / along};
    const std::int64_t m = cuts(cuts(rows, kRows), grid.rows) * kRows;
    const std::int64_t n = cuts(cuts(columns, kColumns), grid.columns) * kColumns;
    const std::int64_t parts = std::min(products, cuts(products, along) + 1);
    const std::int64_t takes = m * n + kPacking * (m + parts * n);
    if (takes < least) least = takes, best = grid;
  }
  return best;
}

struct Range {
  std::int64_t first = 0, last = 0;
};
// Range number `i` of `count` of `extent`.
Range share(std::int64_t extent, std::int64_t unit, std::int64_t i, std::int64_t count) {
  const std::int64_t units = cuts(extent, unit);
  return {std::min(extent, units * i / count * unit),
          std::min(extent, units * (i + 1) / count * unit)};
}

// Work of a product's rows, in units of kRows.
std::int64_t work_of(const MatMulShape& s) {
  return cuts(s.m, kRows) * s.k;
}
// The product's rows within `work`, of which `before` is that of products before.
Range rows_within(const MatMulShape& s, std::int64_t before, Range work) {
  const auto row = [&](std::int64_t at) {
    return std::clamp<std::int64_t>((at - before) / s.k * kRows, 0, s.m);
  };
  return {row(work.first), row(work.last)};
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

void OwnMatMul::run_grouped(std::span<const MatMul> products) {
  if (products.empty()) return;
  std::int64_t rows = 0, work = 0;
  for (const MatMul& product : products) {
    rows += product.shape.m;
    work += work_of(product.shape);
  }
  const std::int64_t n = products.front().shape.n, threads = products.front().shape.threads;
  const Grid grid = grid_of(std::ssize(products), rows, n, threads);
  const std::size_t bytes = static_cast<std::size_t>(threads * kMatMulWorkspace) * sizeof(float);
  if (workspace_.bytes() < bytes) workspace_ = Memory(bytes, Device{});
  float* const workspace = reinterpret_cast<float*>(workspace_.data());
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(threads))
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const Range own = share(work, 1, thread / grid.columns, grid.rows);
    const Range columns = share(n, kColumns, thread % grid.columns, grid.columns);
    if (columns.first == columns.last) continue;
    std::int64_t before = 0;
    for (const MatMul& product : products) {
      const Range part = rows_within(product.shape, before, own);
      before += work_of(product.shape);
      if (part.first >= part.last) continue;
      matmul(part_of(product, part, columns), workspace + thread * kMatMulWorkspace);
    }
  }
}

}  // namespace trireme::ops::cpu
