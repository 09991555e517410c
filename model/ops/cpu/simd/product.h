// Included by kernel sources after targets.h, once per target.
#if defined(TRIREME_OPS_CPU_SIMD_PRODUCT) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_PRODUCT
#undef TRIREME_OPS_CPU_SIMD_PRODUCT
#else
#define TRIREME_OPS_CPU_SIMD_PRODUCT
#endif

#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// The part of a tile's product that the causal mask leaves; query r of the tile sees the keys up to
// r + offset.
enum class Trim : std::uint8_t {
  kNone,
  kColumns,  // c is [keys, queries]: the first queries do not see a key
  kLater,    // c is [queries, width], summed over keys up to the last visible one
  kEarlier,  // c is [keys, width], summed over queries from the first that sees the key
};

// c [m, n] = or += a [m, k] b [k, n] of small matrices in the L1 or L2 cache. n is a multiple of
// the vector length; element (i, p) of a is a[i * a_row + p * a_column].
template <class A>
struct Product {
  A* c = nullptr;
  std::int64_t ldc = 0;
  const A* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  const A* b = nullptr;
  std::int64_t ldb = 0;
  std::int64_t m = 0, n = 0, k = 0;
  bool add = false;
  Trim trim = Trim::kNone;
  std::int64_t offset = 0;
};

// Accumulators of a block fit in 32 registers, or in 16.
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = HWY_MAX_BYTES == 64 ? 4 : 2;

template <int kRows, int kVectors, class A>
HWY_INLINE void block(const Product<A>& x, A* c, const A* a, const A* b, std::int64_t k) {
  const Lanes<A> d;
  Vec<A> sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = x.add ? LoadU(d, c + i * x.ldc + j * kLanes<A>) : Zero(d);
  for (std::int64_t p = 0; p < k; ++p, a += x.a_column, b += x.ldb) {
    Vec<A> row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = LoadU(d, b + j * kLanes<A>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec<A> factor = spread(a[i * x.a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = MulAdd(factor, row[j], sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) StoreU(sums[i][j], d, c + i * x.ldc + j * kLanes<A>);
}

template <int kRows, class A>
HWY_INLINE void row_block(const Product<A>& x, std::int64_t first, std::int64_t begin,
                          std::int64_t end) {
  std::int64_t column = 0;
  if (x.trim == Trim::kColumns && first > x.offset)
    column = (first - x.offset) / kLanes<A> * kLanes<A>;
  const A* a = x.a + first * x.a_row + begin * x.a_column;
  const A* b = x.b + begin * x.ldb;
  A* c = x.c + first * x.ldc;
  constexpr std::int64_t kStep = kBlockVectors * kLanes<A>;
  const std::int64_t k = end - begin;
  for (; column + kStep <= x.n; column += kStep)
    block<kRows, kBlockVectors>(x, c + column, a, b + column, k);
  if constexpr (kBlockVectors > 3) {
    if (column + 3 * kLanes<A> <= x.n) {
      block<kRows, 3>(x, c + column, a, b + column, k);
      column += 3 * kLanes<A>;
    }
  }
  if constexpr (kBlockVectors > 2) {
    if (column + 2 * kLanes<A> <= x.n) {
      block<kRows, 2>(x, c + column, a, b + column, k);
      column += 2 * kLanes<A>;
    }
  }
  if (column < x.n) block<kRows, 1>(x, c + column, a, b + column, k);
}

template <class A>
TRIREME_KERNEL void multiply(const Product<A>& x) {
  for (std::int64_t first = 0; first < x.m; first += kBlockRows) {
    const std::int64_t rows = x.m - first < kBlockRows ? x.m - first : kBlockRows;
    std::int64_t begin = 0, end = x.k;
    if (x.trim == Trim::kLater && first + rows + x.offset < end) end = first + rows + x.offset;
    if (x.trim == Trim::kEarlier && first > x.offset) begin = first - x.offset;
    if (end < begin) end = begin;
    switch (rows) {
      case 6:
        row_block<6>(x, first, begin, end);
        break;
      case 5:
        row_block<5>(x, first, begin, end);
        break;
      case 4:
        row_block<4>(x, first, begin, end);
        break;
      case 3:
        row_block<3>(x, first, begin, end);
        break;
      case 2:
        row_block<2>(x, first, begin, end);
        break;
      default:
        row_block<1>(x, first, begin, end);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
