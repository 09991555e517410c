#include "model/ops/cuda/matmul.h"

#include "model/base/error.h"
#include "model/ops/choice_table.h"

namespace trireme::ops::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kI32:
      break;
  }
  throw Error("cuBLASLt was given int32 operands");
}

cudaDataType_t type_of_factor(DType in, const std::optional<Float8Format>& float8) {
  if (!float8) return type_of(in);
  return *float8 == Float8Format::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

// cuBLASLt layout of a row-major matrix of `rows` rows, possibly read transposed.
cublasLtMatrixLayout_t layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  return layout;
}

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t what,
         const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(wish, what, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

std::size_t MatMulHash::operator()(const MatMulShape& s) const {
  std::size_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::size_t>(value)) * 0x100000001b3;
  };
  for (const std::int64_t value : {s.m, s.n, s.k}) mix(value);
  mix(s.transpose_a | s.transpose_b << 1 | (s.accumulate == Accumulate::kAdd) << 2 | s.bias << 3 |
      s.addend << 4);
  mix(static_cast<int>(s.in) | static_cast<int>(s.out) << 4 | s.alignment << 8);
  for (const auto& format : {s.float8_a, s.float8_b})
    mix(format ? 1 + static_cast<int>(*format) : 0);
  return hash;
}

std::string choice_key(const MatMulShape& s) {
  std::string key = s.float8_a ? say(name_of(*s.float8_a), "*", name_of(*s.float8_b))
                               : std::string(name_of(s.in));
  if (s.float8_a || s.out != s.in) key += say(">", name_of(s.out));
  key += say(s.transpose_a ? " t" : " n", s.transpose_b ? "t " : "n ", extents_key(s.m, s.n, s.k));
  if (s.accumulate == Accumulate::kAdd) key += " add";
  if (s.bias) key += " bias";
  if (s.addend) key += " addend";
  if (s.alignment < 16) key += say(" aligned ", s.alignment);
  return key;
}

MatMulPlan::MatMulPlan(const MatMulShape& shape) : shape_(shape) {
  const bool is_double = shape.in == DType::kF64;
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 is_double ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  product_.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.bias) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(shape.in)));
  }
  const std::int64_t m = shape.m, n = shape.n, k = shape.k;
  const cudaDataType_t of_a = type_of_factor(shape.in, shape.float8_a);
  const cudaDataType_t of_b = type_of_factor(shape.in, shape.float8_b);
  left_.reset(shape.transpose_b ? layout_of(of_b, n, k) : layout_of(of_b, k, n));
  right_.reset(shape.transpose_a ? layout_of(of_a, k, m) : layout_of(of_a, m, k));
  result_.reset(layout_of(type_of(shape.out), m, n));
}

std::vector<MatMulPlan::Candidate> MatMulPlan::candidates(cublasLtHandle_t library,
                                                          std::size_t workspace_bytes,
                                                          int most) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> wish(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Partial sums of split-k are stored in the accumulator type, in the workspace.
  constexpr std::uint32_t kSchemes =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSchemes);
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(made, operand, static_cast<std::uint32_t>(shape_.alignment));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library, product_.get(), left_.get(), right_.get(), result_.get(), result_.get(), made, most,
      found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) {
    const auto& result = found[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    candidates.push_back({result.algo, result.workspaceSize});
  }
  return candidates;
}

bool MatMulPlan::can_use(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm,
                         std::size_t workspace_bytes) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(library, product_.get(), left_.get(), right_.get(), result_.get(),
                              result_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
}

void MatMulPlan::run(cublasLtHandle_t library, const MatMul& product, std::byte* out,
                     const cublasLtMatmulAlgo_t& algorithm, std::byte* workspace,
                     std::size_t workspace_bytes, cudaStream_t stream) {
  if (shape_.bias) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  if (shape_.float8_a) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b_scale);
    set(product_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a_scale);
  }
  const bool adds = shape_.addend || shape_.accumulate == Accumulate::kAdd;
  const double one = 1, sum = adds ? 1 : 0;
  const float one_float = 1, sum_float = static_cast<float>(sum);
  const bool is_double = shape_.in == DType::kF64;
  const auto scale = [is_double](const double& wide, const float& narrow) {
    return is_double ? static_cast<const void*>(&wide) : static_cast<const void*>(&narrow);
  };
  check(cublasLtMatmul(library, product_.get(), scale(one, one_float), product.b, left_.get(),
                       product.a, right_.get(), scale(sum, sum_float),
                       shape_.addend ? product.addend : product.c, result_.get(), out,
                       result_.get(), &algorithm, workspace, workspace_bytes, stream),
        "cublasLtMatmul");
}

}  // namespace trireme::ops::cuda
