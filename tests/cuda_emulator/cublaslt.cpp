#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "tests/cuda_emulator/cublaslt.h"
#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/streams.h"

using trireme::emulator::DeviceMemory;
using trireme::emulator::is_float8;
using trireme::emulator::Matrix;
using trireme::emulator::MatrixProduct;
using trireme::emulator::size_of;
using trireme::emulator::Way;

namespace {

constexpr std::uint64_t kMark = 0x656d756c61746564;  // of algorithms that are ours
constexpr std::size_t kVectorBytes = 16;

MatrixProduct product_of(const cublasLtMatmulDescOpaque_t& product, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d) {
  MatrixProduct made;
  made.a = a->matrix;
  made.b = b->matrix;
  made.c = c->matrix;
  made.d = d->matrix;
  made.a.transposed = product.of_a == CUBLAS_OP_T;
  made.b.transposed = product.of_b == CUBLAS_OP_T;
  if (product.epilogue == CUBLASLT_EPILOGUE_BIAS) made.bias = product.bias;
  made.scale_of_a = product.scale_of_a;
  made.scale_of_b = product.scale_of_b;
  return made;
}

// The library's requirements for float8 before compute capability 10: "TN", extents of whole
// 16 bytes, one factor E4M3 at least, sums in float32.
bool is_supported_in_float8(const cublasLtMatmulDescOpaque_t& product, const MatrixProduct& p) {
  if (!is_float8(p.a.type) || !is_float8(p.b.type)) return false;
  if (p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2) return false;
  if (!p.a.transposed || p.b.transposed) return false;
  if (product.compute != CUBLAS_COMPUTE_32F || product.scale != CUDA_R_32F) return false;
  if (p.c.type != p.d.type || (p.d.type != CUDA_R_16BF && p.d.type != CUDA_R_32F)) return false;
  for (const Matrix* matrix : {&p.a, &p.b, &p.d}) {
    for (const std::int64_t extent : {matrix->rows, matrix->columns, matrix->leading}) {
      if (extent % 16 != 0) return false;
    }
  }
  if (product.epilogue != CUBLASLT_EPILOGUE_BIAS) return true;
  return p.d.type == CUDA_R_16BF && product.bias_type.value_or(p.d.type) == CUDA_R_16BF;
}

// Sizes first, then the types that the library lists as supported together.
cublasStatus_t judge(const cublasLtMatmulDescOpaque_t& product, const MatrixProduct& p) {
  const auto rows = [](const Matrix& x) { return x.transposed ? x.columns : x.rows; };
  const auto columns = [](const Matrix& x) { return x.transposed ? x.rows : x.columns; };
  const bool fits = rows(p.a) == p.d.rows && columns(p.b) == p.d.columns &&
                    columns(p.a) == rows(p.b) && p.c.rows == p.d.rows && p.c.columns == p.d.columns;
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  if (is_float8(p.a.type) || is_float8(p.b.type)) {
    return is_supported_in_float8(product, p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (p.scale_of_a || p.scale_of_b || is_float8(p.d.type)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool has_bias = product.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (p.a.type != p.b.type || p.c.type != p.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (product.compute == CUBLAS_COMPUTE_64F) {
    const bool all =
        product.scale == CUDA_R_64F && p.a.type == CUDA_R_64F && p.d.type == CUDA_R_64F;
    return all && !has_bias ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool all = product.scale == CUDA_R_32F && p.a.type != CUDA_R_64F &&
                   (p.d.type == p.a.type || p.d.type == CUDA_R_32F);
  if (!all) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!has_bias) return CUBLAS_STATUS_SUCCESS;
  const bool bias_fits = product.bias_type.value_or(p.d.type) == p.d.type;
  return bias_fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasLtMatmulAlgo_t algorithm_of(Way way) {
  return {{kMark, static_cast<std::uint64_t>(way), 0, 0, 0, 0, 0, 0}};
}
std::optional<Way> way_of(const cublasLtMatmulAlgo_t& algorithm) {
  for (const Way way : {Way::kInOrder, Way::kVectors, Way::kHalves}) {
    const cublasLtMatmulAlgo_t ours = algorithm_of(way);
    if (std::equal(ours.data, ours.data + 8, algorithm.data)) return way;
  }
  return std::nullopt;
}

bool overlap(const Matrix& x, const Matrix& y) {
  return x.data < y.data + y.bytes() && y.data < x.data + x.bytes();
}

// What the device would stumble over.
bool is_placed_well(const MatrixProduct& p, std::size_t workspace_bytes) {
  const DeviceMemory& memory = DeviceMemory::get();
  for (const Matrix* matrix : {&p.a, &p.b, &p.d}) {
    if (!memory.holds(matrix->data, matrix->bytes())) return false;
    if (reinterpret_cast<std::uintptr_t>(matrix->data) % size_of(matrix->type) != 0) return false;
  }
  if (p.beta != 0 && !memory.holds(p.c.data, p.c.bytes())) return false;
  if (p.c.data != p.d.data && p.beta != 0 && overlap(p.c, p.d)) return false;
  if (overlap(p.a, p.d) || overlap(p.b, p.d)) return false;
  if (p.bias) {
    const std::size_t bytes = static_cast<std::size_t>(p.d.rows) * size_of(p.d.type);
    if (!memory.holds(p.bias, bytes)) return false;
  }
  for (const std::byte* scale : {p.scale_of_a, p.scale_of_b}) {
    if (scale && !memory.holds(scale, sizeof(float))) return false;
  }
  if (p.way == Way::kVectors || is_float8(p.a.type)) {
    for (const Matrix* matrix : {&p.a, &p.b, &p.d}) {
      if (reinterpret_cast<std::uintptr_t>(matrix->data) % kVectorBytes != 0) return false;
    }
  }
  return workspace_bytes == 0 || memory.holds(p.workspace, workspace_bytes);
}

}  // namespace

std::set<Way>& trireme::emulator::failing_ways() {
  static std::set<Way> ways;
  return ways;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (!handle || most <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = judge(*product, product_of(*product, a, b, c, d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const bool aligned = std::all_of(std::begin(wish->alignments), std::end(wish->alignments),
                                   [](std::uint32_t bytes) { return bytes >= kVectorBytes; });
  for (const Way way : {Way::kVectors, Way::kInOrder, Way::kHalves}) {
    if (*count == most) break;
    const std::size_t bytes = workspace_of(way, d->matrix, product->compute);
    if (way == Way::kVectors && !aligned) continue;
    if (way == Way::kHalves && (wish->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0)
      continue;
    if (bytes > wish->workspace_bytes) continue;
    found[(*count)++] = {algorithm_of(way), bytes, CUBLAS_STATUS_SUCCESS, 1};
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto way = way_of(*algorithm);
  if (!handle || !way) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = judge(*product, product_of(*product, a, b, c, d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *result = {*algorithm, workspace_of(*way, d->matrix, product->compute), status, 1};
  return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, product, a_layout, b_layout,
                                                        c_layout, d_layout, algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  MatrixProduct p = product_of(*product, a_layout, b_layout, c_layout, d_layout);
  const auto place = [](const void* at) {
    return static_cast<std::byte*>(const_cast<void*>(at));  // only d is written
  };
  p.a.data = place(a);
  p.b.data = place(b);
  p.c.data = place(c);
  p.d.data = place(d);
  const auto scale = [&](const void* value) {
    if (product->scale == CUDA_R_64F) return *static_cast<const double*>(value);
    return static_cast<double>(*static_cast<const float*>(value));
  };
  p.alpha = scale(alpha);
  p.beta = scale(beta);
  p.way = way_of(*algorithm).value_or(Way::kInOrder);
  p.workspace = place(workspace);
  if (trireme::emulator::failing_ways().contains(p.way)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool has_bias = product->epilogue != CUBLASLT_EPILOGUE_BIAS || p.bias;
  if (!has_bias || checked.workspaceSize > workspace_bytes ||
      !is_placed_well(p, checked.workspaceSize)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cudaError_t queued = trireme::emulator::enqueue(stream, [p] {
    const DeviceMemory::Access access;
    multiply(p);
    return cudaSuccess;
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
