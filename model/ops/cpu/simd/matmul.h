#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// c [m, n] = or += a [m, k] b [k, n] (+ bias [n]) in float32, by one thread. Of a's two
// steps, and of b's, one is 1: to the next row, to the next column.
struct MatMulPart {
  float* c = nullptr;
  std::int64_t ldc = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  const float* b = nullptr;
  std::int64_t b_row = 0, b_column = 1;
  const float* bias = nullptr;  // or none
  std::int64_t m = 0, n = 0, k = 0;
  bool add = false;
};

// What is packed at a time: k is cut into equal blocks of up to kMatMulDepth, n into
// blocks of kMatMulWidth, so that b's block stays in the second cache, and m into
// groups of up to kMatMulRows.
inline constexpr std::int64_t kMatMulDepth = 256, kMatMulWidth = 512, kMatMulRows = 48;
// Elements a call may write to `workspace`, aligned to 64 bytes.
inline constexpr std::int64_t kMatMulWorkspace = kMatMulDepth * (kMatMulWidth + kMatMulRows) + 16;

// An element's bits depend on k and on the instruction set, not on m, n or its place.
// (Goto and van de Geijn 2008, doi:10.1145/1356052.1356053, of whose three cache levels
// the first holds a tile of a here and b's block streams from the second.)
template <Isa isa>
void matmul(const MatMulPart& part, float* workspace);

}  // namespace trireme::simd
