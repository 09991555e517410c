#include "model/ops/cpu/matmul_own.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <vector>

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

// Work of a product of m rows and depth k, in units of kRows.
std::int64_t work_of(std::int64_t m, std::int64_t k) {
  return cuts(m, kRows) * k;
}
// The product's rows within `work`, of which `before` is that of products before.
Range rows_within(std::int64_t m, std::int64_t k, std::int64_t before, Range work) {
  const auto row = [&](std::int64_t at) {
    return std::clamp<std::int64_t>((at - before) / k * kRows, 0, m);
  };
  return {row(work.first), row(work.last)};
}

// Consecutive products that are computed together, since they have one b or add to one c.
struct Run {
  std::span<const MatMul> products;
  std::int64_t depth = 0;  // of the products into one c together; 0: they have one b

  std::int64_t work() const {
    if (depth > 0) return work_of(products.front().shape.m, depth);
    std::int64_t sum = 0;
    for (const MatMul& product : products) sum += work_of(product.shape.m, product.shape.k);
    return sum;
  }
  std::int64_t rows() const {
    if (depth > 0) return products.front().shape.m;
    std::int64_t sum = 0;
    for (const MatMul& product : products) sum += product.shape.m;
    return sum;
  }
};

// The longest run at the beginning of `products`.
Run first_run(std::span<const MatMul> products) {
  const MatMul& first = products.front();
  std::size_t count = 1;
  while (count < products.size() && products[count].b == first.b) ++count;
  if (count > 1) return {products.first(count)};
  std::int64_t depth = first.shape.k;
  for (; count < products.size() && products[count].c == first.c; ++count) {
    depth += products[count].shape.k;
  }
  return {products.first(count), count > 1 ? depth : 0};
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

void multiply_into_one_c(std::span<const MatMulPart> parts, float* workspace) {
  while (!parts.empty()) {
    std::size_t count = 1;
    std::int64_t depth = parts.front().k;
    while (count < parts.size() && depth + parts[count].k <= kMatMulDepth) {
      depth += parts[count++].k;
    }
    if (count == 1) {
      matmul(parts.front(), workspace);
    } else {
      matmul_into_one_c(parts.first(count), workspace);
    }
    parts = parts.subspan(count);
  }
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
  std::vector<Run> runs;
  std::int64_t rows = 0, work = 0;
  for (std::span rest = products; !rest.empty(); rest = rest.subspan(runs.back().products.size())) {
    runs.push_back(first_run(rest));
    work += runs.back().work();
    rows += runs.back().rows();
  }
  const std::int64_t n = products.front().shape.n, threads = products.front().shape.threads;
  const Grid grid = grid_of(std::ssize(runs), rows, n, threads);
  const std::size_t bytes = static_cast<std::size_t>(threads * kMatMulWorkspace) * sizeof(float);
  if (workspace_.bytes() < bytes) workspace_ = Memory(bytes, Device{});
  float* const workspace = reinterpret_cast<float*>(workspace_.data());
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(threads))
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const Range own = share(work, 1, thread / grid.columns, grid.rows);
    const Range columns = share(n, kColumns, thread % grid.columns, grid.columns);
    if (columns.first == columns.last) continue;
    std::int64_t before = 0;
    std::vector<MatMulPart> parts;
    for (const Run& run : runs) {
      parts.clear();
      for (const MatMul& product : run.products) {
        const std::int64_t k = run.depth > 0 ? run.depth : product.shape.k;
        const Range part = rows_within(product.shape.m, k, before, own);
        if (run.depth == 0) before += work_of(product.shape.m, k);
        if (part.first < part.last) parts.push_back(part_of(product, part, columns));
      }
      if (run.depth > 0) before += run.work();
      if (parts.empty()) continue;
      const auto multiply = run.depth > 0 ? multiply_into_one_c : matmul_of_one_b;
      multiply(parts, workspace + thread * kMatMulWorkspace);
    }
  }
}

}  // namespace trireme::ops::cpu
