#pragma once
#include <cstdint>
#include <span>

namespace trireme::ops::cpu {

// c [m, n] = or += a [m, k] b [k, n] (+ bias [n]) in float32, on one thread. One of the two strides
// (row, column) of a is 1, and so is one of b's.
struct MatMulPart {
  float* c = nullptr;
  std::int64_t ldc = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  const float* b = nullptr;
  std::int64_t b_row = 0, b_column = 1;
  const float* bias = nullptr;  // or null
  std::int64_t m = 0, n = 0, k = 0;
  bool add = false;
};

// Packing block sizes: k is split into equal blocks of at most kMatMulDepth, n into blocks of
// kMatMulWidth, so that b's block fits the L2 cache, and m into groups of at most kMatMulRows.
inline constexpr std::int64_t kMatMulDepth = 256, kMatMulWidth = 512, kMatMulRows = 48;
// Elements of `workspace` per call, aligned to 64 bytes.
inline constexpr std::int64_t kMatMulWorkspace = kMatMulDepth * (kMatMulWidth + kMatMulRows) + 16;

// The bits of an element depend on k and on the instruction set, not on m, n or its position. (Goto
// and van de Geijn 2008, doi:10.1145/1356052.1356053; here the L1 cache holds a tile of a, and b's
// block streams from L2.)
void matmul(const MatMulPart& part, float* workspace);
// Products with one b, which is packed once; they have the same n and k.
void matmul_of_one_b(std::span<const MatMulPart> parts, float* workspace);
// The sum of products with one c, which stays in the cache; they have the same m and n, and their
// depths are at most kMatMulDepth in all. The first has `add` as wished, the others add. The bits
// are those of one product after the other.
void matmul_into_one_c(std::span<const MatMulPart> parts, float* workspace);

}  // namespace trireme::ops::cpu
