#pragma once
#include <cstddef>
#include <cstdint>

#include <cublasLt.h>

// The arithmetic behind the emulated cuBLASLt.
namespace trireme::emulator {

// A column-major matrix.
struct Matrix {
  std::byte* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;

  // From the first element to the last.
  std::size_t bytes() const;
};
std::size_t size_of(cudaDataType_t type);
bool is_float8(cudaDataType_t type);

// The orders in which the `k` products of an element are summed.
enum class Way : std::uint8_t {
  kInOrder,
  kVectors,  // every fourth in a sum of its own; its operands are aligned to 16 bytes
  kHalves    // two sums, kept in the workspace until both are done
};

// d [m, n] = alpha a b + beta c + bias, summed in float or, for 64-bit factors, in double.
struct MatrixProduct {
  Matrix a, b, c, d;
  double alpha = 1, beta = 0;                                    // 0: c is not read
  const std::byte* bias = nullptr;                               // [m], of d's type, or none
  const std::byte *scale_of_a = nullptr, *scale_of_b = nullptr;  // a float each, or none
  Way way = Way::kInOrder;
  std::byte* workspace = nullptr;
};
std::size_t workspace_of(Way way, const Matrix& d, cublasComputeType_t compute);
// Touches the device's memory.
void multiply(const MatrixProduct& product);

}  // namespace trireme::emulator
