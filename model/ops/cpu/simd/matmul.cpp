#include "model/ops/cpu/simd/matmul.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

// A tile of c is as many sums as registers hold beside a row of b and a factor of a.
constexpr int kLane = kLanes<float>;
constexpr int kTileStep = kVectorBytes == 64 ? 4 : kVectorBytes == 32 ? 2 : 1;
constexpr int kTileRows = 3 * kTileStep;
constexpr int kTileVectors = 2;
constexpr int kTileWidth = kTileVectors * kLane;
// Rows of a are packed some tiles at a time: whole cache lines of a transposed one.
constexpr int kGroupTiles = 4;
constexpr int kGroupRows = kGroupTiles * kTileRows;
static_assert(kTileRows <= kLane && kMatMulWidth % kTileWidth == 0);
static_assert(kGroupRows <= kMatMulRows);

TRIREME_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// The lower, or upper, halves of a and b, element by element in turns.
TRIREME_INLINE VecF low_turns(VecF a, VecF b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
TRIREME_INLINE VecF high_turns(VecF a, VecF b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// A square block: its halves interleaved as often as halving ends.
TRIREME_INLINE void transpose(VecF (&rows)[kLane]) {
#pragma GCC unroll 4
  for (int step = 1; step < kLane; step *= 2) {
    VecF next[kLane];
#pragma GCC unroll 8
    for (int i = 0; i < kLane / 2; ++i) {
      next[2 * i] = low_turns(rows[i], rows[i + kLane / 2]);
      next[2 * i + 1] = high_turns(rows[i], rows[i + kLane / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLane; ++i) rows[i] = next[i];
  }
}

// `count` of kWidth vectors of length k that lie `ld` apart, as k rows of kWidth, zeros
// beyond count. May write up to kLane elements beyond the end.
template <int kWidth>
TRIREME_INLINE void pack_across(float* to, const float* from, std::int64_t ld, std::int64_t count,
                                std::int64_t k) {
  for (int first = 0; first < kWidth; first += kLane) {
    const std::int64_t valid = smaller(count - first, kLane);
    const float* source = from + first * ld;
    float* target = to + first;
    std::int64_t p = 0;
    for (; p + kLane <= k; p += kLane) {
      VecF rows[kLane];
      if (valid >= kLane || valid == kWidth) {
#pragma GCC unroll 16
        for (int i = 0; i < kLane; ++i)
          rows[i] = i < kWidth ? read<VecF>(Full{}, source + i * ld + p) : VecF{};
      } else {
        for (int i = 0; i < kLane; ++i)
          rows[i] = i < valid ? read<VecF>(Full{}, source + i * ld + p) : VecF{};
      }
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < kLane; ++i) write(Full{}, target + (p + i) * kWidth, rows[i]);
    }
    const int width = kWidth < kLane ? kWidth : kLane;
    for (; p < k; ++p)
      for (int i = 0; i < width; ++i) target[p * kWidth + i] = i < valid ? source[i * ld + p] : 0;
  }
}

// The same of vectors that lie side by side, their elements `ld` apart.
template <int kWidth>
TRIREME_INLINE void pack_along(float* to, const float* from, std::int64_t ld, std::int64_t count,
                               std::int64_t k) {
  if (count >= kWidth) {
    for (std::int64_t p = 0; p < k; ++p)
      __builtin_memcpy(to + p * kWidth, from + p * ld, sizeof(float) * kWidth);
    return;
  }
  for (std::int64_t p = 0; p < k; ++p)
    for (std::int64_t i = 0; i < kWidth; ++i) to[p * kWidth + i] = i < count ? from[p * ld + i] : 0;
}

template <int kWidth>
__attribute__((noinline, flatten)) void pack(float* to, const float* from, std::int64_t to_vector,
                                             std::int64_t to_element, std::int64_t count,
                                             std::int64_t k) {
  if (to_vector == 1)
    pack_along<kWidth>(to, from, to_element, count, k);
  else
    pack_across<kWidth>(to, from, to_vector, count, k);
}

// Where a tile's sums go, and what is added to them: rows of `start`, `start_ld`
// apart, or nothing.
struct Target {
  float* c;
  std::int64_t ldc;
  const float* start;
  std::int64_t start_ld;
};

template <int kRows>
TRIREME_INLINE void tile(Target to, const float* a, const float* b, std::int64_t k) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    __builtin_prefetch(to.c + i * to.ldc, 1);
    __builtin_prefetch(to.c + i * to.ldc + kTileWidth - 1, 1);
  }
  VecF sums[kRows][kTileVectors] = {};
  for (std::int64_t p = 0; p < k; ++p, a += kTileRows, b += kTileWidth) {
    VecF row[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) row[j] = read<VecF>(Full{}, b + j * kLane);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const VecF factor = spread(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) sums[i][j] = fma(factor, row[j], sums[i][j]);
    }
  }
  if (to.start) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j)
        sums[i][j] += read<VecF>(Full{}, to.start + i * to.start_ld + j * kLane);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) write(Full{}, to.c + i * to.ldc + j * kLane, sums[i][j]);
}

template <int kRows>
__attribute__((noinline, flatten)) void tile_rows(Target to, const float* a, const float* b,
                                                  std::int64_t k) {
  tile<kRows>(to, a, b, k);
}

TRIREME_INLINE void any_tile(const Target& to, const float* a, const float* b, std::int64_t k,
                             std::int64_t rows) {
  if (rows > 2 * kTileStep)
    tile_rows<kTileRows>(to, a, b, k);
  else if (rows > kTileStep)
    tile_rows<2 * kTileStep>(to, a, b, k);
  else
    tile_rows<kTileStep>(to, a, b, k);
}

// A tile of which c has only some rows or columns goes through a whole one.
__attribute__((noinline)) void edge_tile(const Target& to, const float* a, const float* b,
                                         std::int64_t k, std::int64_t rows, std::int64_t columns) {
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

// A piece of a matrix that is asked for some cache lines at a time, before it is needed.
struct Ahead {
  const float* from = nullptr;
  std::int64_t ld = 0, rows = 0, width = 0;
  std::int64_t row = 0, column = 0;

  std::int64_t lines() const { return rows * ((width + 15) / 16); }
  TRIREME_INLINE void ask(std::int64_t count) {
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

// c's columns [j0, j0 + n) from the block of k columns of a and rows of b at p0.
__attribute__((noinline)) void block(const MatMulPart& x, std::int64_t j0, std::int64_t n,
                                     std::int64_t p0, std::int64_t k, float* b_block,
                                     float* a_group) {
  const float* const b = x.b + p0 * x.b_row + j0 * x.b_column;
  for (std::int64_t j = 0; j < n; j += kTileWidth)
    pack<kTileWidth>(b_block + j * k, b + j * x.b_column, x.b_column, x.b_row, n - j, k);
  const std::int64_t panels = (n + kTileWidth - 1) / kTileWidth;
  for (std::int64_t i0 = 0; i0 < x.m; i0 += kGroupRows) {
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
          edge_tile(to, a_group + (i - i0) * k, b_block + j * k, k, rows,
                    smaller(n - j, kTileWidth));
      }
    }
  }
}

}  // namespace

template <Isa isa>
void matmul(const MatMulPart& x, float* workspace) {
  float* const a_group = workspace + kMatMulDepth * kMatMulWidth;
  const std::int64_t blocks = (x.k + kMatMulDepth - 1) / kMatMulDepth;
  for (std::int64_t j0 = 0; j0 < x.n; j0 += kMatMulWidth) {
    const std::int64_t n = smaller(x.n - j0, kMatMulWidth);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t p0 = x.k * i / blocks, p1 = x.k * (i + 1) / blocks;
      block(x, j0, n, p0, p1 - p0, workspace, a_group);
    }
  }
}

template void matmul<kIsa>(const MatMulPart&, float*);

}  // namespace trireme::simd
