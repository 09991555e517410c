#include "tests/cuda_emulator/matrix_product.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace trireme::emulator {
namespace {

// By the formats' definition: E4M3 has no infinity and one NaN, E5M2 both as IEEE 754 has them.
float float8_value(unsigned code, cudaDataType_t type) {
  const bool wide = type == CUDA_R_8F_E4M3;  // of mantissa
  const unsigned exponent = wide ? code >> 3 & 15 : code >> 2 & 31;
  const unsigned mantissa = wide ? code & 7 : code & 3;
  const float steps = wide ? 8 : 4;
  const int bias = wide ? 7 : 15;
  if (wide ? (code & 0x7f) == 0x7f : exponent == 31 && mantissa != 0)
    return std::numeric_limits<float>::quiet_NaN();
  float value =
      std::ldexp(1 + static_cast<float>(mantissa) / steps, static_cast<int>(exponent) - bias);
  if (exponent == 0) value = std::ldexp(static_cast<float>(mantissa) / steps, 1 - bias);
  if (!wide && exponent == 31) value = std::numeric_limits<float>::infinity();
  return (code & 0x80) != 0 ? -value : value;
}

template <class Sum>
Sum read(const Matrix& matrix, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row + column * matrix.leading;
  switch (matrix.type) {
    case CUDA_R_64F:
      return static_cast<Sum>(reinterpret_cast<const double*>(matrix.data)[at]);
    case CUDA_R_16BF:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(matrix.data)[at]);
    case CUDA_R_16F:
      return __half2float(reinterpret_cast<const __half*>(matrix.data)[at]);
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return float8_value(std::to_integer<unsigned>(matrix.data[at]), matrix.type);
    case CUDA_R_32F:
      break;
  }
  return reinterpret_cast<const float*>(matrix.data)[at];
}

template <class Sum>
void write(const Matrix& matrix, std::int64_t row, std::int64_t column, Sum value) {
  const std::int64_t at = row + column * matrix.leading;
  if (matrix.type == CUDA_R_64F) {
    reinterpret_cast<double*>(matrix.data)[at] = value;
  } else if (matrix.type == CUDA_R_16BF) {
    reinterpret_cast<__nv_bfloat16*>(matrix.data)[at] =
        __float2bfloat16_rn(static_cast<float>(value));
  } else if (matrix.type == CUDA_R_16F) {
    reinterpret_cast<__half*>(matrix.data)[at] = __float2half_rn(static_cast<float>(value));
  } else {
    reinterpret_cast<float*>(matrix.data)[at] = static_cast<float>(value);
  }
}

// op(matrix), dense and column-major.
template <class Sum>
std::vector<Sum> dense(const Matrix& matrix) {
  std::vector<Sum> all;
  all.reserve(static_cast<std::size_t>(matrix.rows * matrix.columns));
  const std::int64_t outer = matrix.transposed ? matrix.rows : matrix.columns;
  const std::int64_t inner = matrix.transposed ? matrix.columns : matrix.rows;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      all.push_back(matrix.transposed ? read<Sum>(matrix, i, j) : read<Sum>(matrix, j, i));
    }
  }
  return all;
}

// Terms first, first + step, ... before `end` of a sum.
struct Part {
  std::int64_t first, step, end;
};

std::vector<Part> parts_of(Way way, std::int64_t k) {
  if (way == Way::kVectors) return {{0, 4, k}, {1, 4, k}, {2, 4, k}, {3, 4, k}};
  if (way == Way::kHalves) return {{0, 1, k / 2}, {k / 2, 1, k}};
  return {{0, 1, k}};
}

template <class Sum>
void multiply_in(const MatrixProduct& p) {
  const std::int64_t m = p.d.rows, n = p.d.columns;
  const std::int64_t k = p.a.transposed ? p.a.rows : p.a.columns;
  const std::vector<Sum> a = dense<Sum>(p.a), b = dense<Sum>(p.b);
  const std::vector<Part> parts = parts_of(p.way, k);
  std::vector<Sum> own(p.way == Way::kHalves ? 0 : parts.size() * static_cast<std::size_t>(m));
  auto alpha = static_cast<Sum>(p.alpha);
  for (const std::byte* scale : {p.scale_of_a, p.scale_of_b}) {
    if (scale) alpha *= static_cast<Sum>(*reinterpret_cast<const float*>(scale));
  }
  const Matrix bias{const_cast<std::byte*>(p.bias), p.d.type, m, 1, m, false};
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t place = j * static_cast<std::int64_t>(parts.size()) * m;
    Sum* const sums =
        p.way == Way::kHalves ? reinterpret_cast<Sum*>(p.workspace) + place : own.data();
    std::fill_n(sums, parts.size() * static_cast<std::size_t>(m), Sum{0});
    for (std::size_t part = 0; part < parts.size(); ++part) {
      Sum* const sum = sums + static_cast<std::int64_t>(part) * m;
      for (std::int64_t l = parts[part].first; l < parts[part].end; l += parts[part].step) {
        const Sum factor = b[static_cast<std::size_t>(j * k + l)];
        const Sum* const column = a.data() + l * m;
        for (std::int64_t i = 0; i < m; ++i) sum[i] += column[i] * factor;
      }
    }
    for (std::int64_t i = 0; i < m; ++i) {
      Sum value = sums[i];
      for (std::size_t part = 1; part < parts.size(); ++part) {
        value += sums[static_cast<std::int64_t>(part) * m + i];
      }
      value *= alpha;
      if (p.beta != 0) value += static_cast<Sum>(p.beta) * read<Sum>(p.c, i, j);
      if (p.bias) value += read<Sum>(bias, i, 0);
      write(p.d, i, j, value);
    }
  }
}

}  // namespace

bool is_float8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

std::size_t size_of(cudaDataType_t type) {
  if (is_float8(type)) return 1;
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

std::size_t Matrix::bytes() const {
  return static_cast<std::size_t>((columns - 1) * leading + rows) * size_of(type);
}

std::size_t workspace_of(Way way, const Matrix& d, cublasComputeType_t compute) {
  if (way != Way::kHalves) return 0;
  const std::size_t size = compute == CUBLAS_COMPUTE_64F ? sizeof(double) : sizeof(float);
  return 2 * static_cast<std::size_t>(d.rows * d.columns) * size;
}

void multiply(const MatrixProduct& product) {
  if (product.a.type == CUDA_R_64F) {
    multiply_in<double>(product);
  } else {
    multiply_in<float>(product);
  }
}

}  // namespace trireme::emulator
