#include "model/ops/cpu/simd/matmul.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/simd/matmul.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/simd/matmul_pack.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// A tile of c uses as many registers as remain after a row of b and an element of a.
constexpr int kTileStep = HWY_MAX_BYTES == 64 ? 4 : HWY_MAX_BYTES == 32 ? 2 : 1;
constexpr int kTileRows = 3 * kTileStep;
constexpr int kTileVectors = 2;
constexpr int kTileWidth = kTileVectors * kLane;
// Rows of a are packed a few tiles at a time: whole cache lines if a is transposed.
constexpr int kGroupTiles = 4;
constexpr int kGroupRows = kGroupTiles * kTileRows;
static_assert(kTileRows <= kLane && kMatMulWidth % kTileWidth == 0);
static_assert(kGroupRows <= kMatMulRows);

// Destination of a tile's sums, and the addend: rows of `start`, `start_ld` apart, or null.
struct Target {
  float* c;
  std::int64_t ldc;
  const float* start;
  std::int64_t start_ld;
};

template <int kRows>
HWY_INLINE void tile(Target to, const float* a, const float* b, std::int64_t k) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    __builtin_prefetch(to.c + i * to.ldc, 1);
    __builtin_prefetch(to.c + i * to.ldc + kTileWidth - 1, 1);
  }
  const Lanes<float> d;
  Vec<float> sums[kRows][kTileVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) sums[i][j] = Zero(d);
  for (std::int64_t p = 0; p < k; ++p, a += kTileRows, b += kTileWidth) {
    Vec<float> row[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) row[j] = LoadU(d, b + j * kLane);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec<float> factor = spread(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) sums[i][j] = MulAdd(factor, row[j], sums[i][j]);
    }
  }
  if (to.start) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j)
        sums[i][j] += LoadU(d, to.start + i * to.start_ld + j * kLane);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) StoreU(sums[i][j], d, to.c + i * to.ldc + j * kLane);
}

template <int kRows>
TRIREME_KERNEL void tile_rows(Target to, const float* a, const float* b, std::int64_t k) {
  tile<kRows>(to, a, b, k);
}

HWY_INLINE void any_tile(const Target& to, const float* a, const float* b, std::int64_t k,
                         std::int64_t rows) {
  if (rows > 2 * kTileStep)
    tile_rows<kTileRows>(to, a, b, k);
  else if (rows > kTileStep)
    tile_rows<2 * kTileStep>(to, a, b, k);
  else
    tile_rows<kTileStep>(to, a, b, k);
}

// A tile of which c has only some rows or columns is computed in full.
HWY_NOINLINE void edge_tile(const Target& to, const float* a, const float* b, std::int64_t k,
                            std::int64_t rows, std::int64_t columns) {
  float whole[kTileRows * kTileWidth];
  any_tile({whole, kTileWidth, nullptr, 0}, a, b, k, rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = whole[i * kTileWidth + j];
      if (to.start) sum += to.start[i * to.start_ld + j];
      to.c[i * to.ldc + j] = sum;
    }
  }
}

// Prefetches a block of a matrix, a few cache lines at a time.
struct Ahead {
  const float* from = nullptr;
  std::int64_t ld = 0, rows = 0, width = 0;
  std::int64_t row = 0, column = 0;

  std::int64_t lines() const { return rows * ((width + 15) / 16); }
  HWY_INLINE void ask(std::int64_t count) {
    for (; count > 0 && row < rows; --count) {
      __builtin_prefetch(from + row * ld + column, 0, 2);
      column += 16;
      if (column >= width) column = 0, ++row;
    }
  }
};

// Rows [i, i + rows) and columns [p, p + k) of a.
Ahead rows_ahead(const MatMulPart& x, std::int64_t i, std::int64_t rows, std::int64_t p,
                 std::int64_t k) {
  const float* const from = x.a + i * x.a_row + p * x.a_column;
  if (x.a_row == 1) return {from, x.a_column, k, rows};
  return {from, x.a_row, rows, k};
}

// c's columns [j0, j0 + n) from k columns of a and rows of b at p0.
struct Block {
  std::int64_t j0 = 0, n = 0, p0 = 0, k = 0;
};

HWY_INLINE void pack_b(const MatMulPart& x, const Block& of, float* b_block) {
  const float* const b = x.b + of.p0 * x.b_row + of.j0 * x.b_column;
  for (std::int64_t j = 0; j < of.n; j += kTileWidth)
    pack<kTileWidth>(b_block + j * of.k, b + j * x.b_column, x.b_column, x.b_row, of.n - j, of.k);
}

// A group of c's rows, from i0 on.
HWY_INLINE void group_rows(const MatMulPart& x, const Block& of, std::int64_t i0,
                           const float* b_block, float* a_group) {
  const auto [j0, n, p0, k] = of;
  const std::int64_t panels = (n + kTileWidth - 1) / kTileWidth;
  const std::int64_t end = smaller(x.m, i0 + kGroupRows);
  for (std::int64_t i = i0; i < end; i += kTileRows)
    pack<kTileRows>(a_group + (i - i0) * k, x.a + i * x.a_row + p0 * x.a_column, x.a_row,
                    x.a_column, end - i, k);
  Ahead next = rows_ahead(x, end, smaller(x.m - end, kGroupRows), p0, k);
  const std::int64_t share = (next.lines() + panels * kGroupTiles - 1) / (panels * kGroupTiles);
  for (std::int64_t j = 0; j < n; j += kTileWidth) {
    for (std::int64_t i = i0; i < end; i += kTileRows) {
      const std::int64_t rows = smaller(end - i, kTileRows);
      Target to{x.c + i * x.ldc + j0 + j, x.ldc, nullptr, 0};
      if (x.add || p0 > 0)
        to.start = to.c, to.start_ld = x.ldc;
      else if (x.bias)
        to.start = x.bias + j0 + j;
      next.ask(share);
      if (rows % kTileStep == 0 && n - j >= kTileWidth)
        any_tile(to, a_group + (i - i0) * k, b_block + j * k, k, rows);
      else
        edge_tile(to, a_group + (i - i0) * k, b_block + j * k, k, rows, smaller(n - j, kTileWidth));
    }
  }
}

HWY_NOINLINE void block_of_one_b(std::span<const MatMulPart> parts, const Block& of, float* b_block,
                                 float* a_group) {
  pack_b(parts.front(), of, b_block);
  for (const MatMulPart& x : parts)
    for (std::int64_t i0 = 0; i0 < x.m; i0 += kGroupRows) group_rows(x, of, i0, b_block, a_group);
}

HWY_NOINLINE void block_into_one_c(std::span<const MatMulPart> parts, std::int64_t j0,
                                   std::int64_t n, float* b_blocks, float* a_group) {
  const std::int64_t width = (n + kTileWidth - 1) / kTileWidth * kTileWidth;
  const auto each = [&](const auto& body) {
    float* b_block = b_blocks;
    for (const MatMulPart& x : parts) {
      body(x, Block{j0, n, 0, x.k}, b_block);
      b_block += width * x.k;
    }
  };
  each(pack_b);
  for (std::int64_t i0 = 0; i0 < parts.front().m; i0 += kGroupRows)
    each([&](const MatMulPart& x, const Block& of, const float* b_block) {
      group_rows(x, of, i0, b_block, a_group);
    });
}

void matmul_of_one_b(std::span<const MatMulPart> parts, float* workspace) {
  float* const a_group = workspace + kMatMulDepth * kMatMulWidth;
  const MatMulPart& first = parts.front();
  const std::int64_t blocks = (first.k + kMatMulDepth - 1) / kMatMulDepth;
  for (std::int64_t j0 = 0; j0 < first.n; j0 += kMatMulWidth) {
    const std::int64_t n = smaller(first.n - j0, kMatMulWidth);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t p0 = first.k * i / blocks, p1 = first.k * (i + 1) / blocks;
      block_of_one_b(parts, {j0, n, p0, p1 - p0}, workspace, a_group);
    }
  }
}

void matmul_into_one_c(std::span<const MatMulPart> parts, float* workspace) {
  float* const a_group = workspace + kMatMulDepth * kMatMulWidth;
  const std::int64_t n = parts.front().n;
  for (std::int64_t j0 = 0; j0 < n; j0 += kMatMulWidth)
    block_into_one_c(parts, j0, smaller(n - j0, kMatMulWidth), workspace, a_group);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(matmul_of_one_b);
HWY_EXPORT(matmul_into_one_c);

void matmul(const MatMulPart& part, float* workspace) {
  matmul_of_one_b({&part, 1}, workspace);
}
void matmul_of_one_b(std::span<const MatMulPart> parts, float* workspace) {
  HWY_DYNAMIC_DISPATCH(matmul_of_one_b)(parts, workspace);
}
void matmul_into_one_c(std::span<const MatMulPart> parts, float* workspace) {
  HWY_DYNAMIC_DISPATCH(matmul_into_one_c)(parts, workspace);
}

}  // namespace trireme::ops::cpu
#endif
