// What the emulated cuBLASLt has to refuse, as the library does or as a device would stumble.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <cublasLt.h>

#include "model/device/copy.h"
#include "model/device/memory.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme {
namespace {

constexpr std::int64_t kM = 3, kN = 5, kK = 8;

// d [3, 5] = a [3, 8] b [8, 5] in float32, column-major, with the library's objects.
class CublasLt : public testing::Test {
 protected:
  CublasLt() {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&of_a, CUDA_R_32F, kM, kK, kM);
    cublasLtMatrixLayoutCreate(&of_b, CUDA_R_32F, kK, kN, kK);
    cublasLtMatrixLayoutCreate(&of_d, CUDA_R_32F, kM, kN, kM);
    cublasLtMatmulPreferenceCreate(&wish);
    const std::uint64_t bytes = workspace.bytes();
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                         sizeof bytes);
    std::vector<float> ones(static_cast<std::size_t>(kK * kN), 1);
    for (const Memory* memory : {&a, &b}) {
      copy_bytes(stream, memory->data(), reinterpret_cast<const std::byte*>(ones.data()),
                 memory->bytes());
    }
    stream.synchronize();
  }
  ~CublasLt() override {
    cublasLtMatmulPreferenceDestroy(wish);
    for (const cublasLtMatrixLayout_t layout : {of_a, of_b, of_d}) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulDescDestroy(product);
    cublasLtDestroy(handle);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> proposed() {
    std::vector<cublasLtMatmulHeuristicResult_t> found(8);
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, product, of_a, of_b, of_d, of_d, wish, 8, found.data(),
                                   &count);
    found.resize(static_cast<std::size_t>(count));
    return found;
  }
  struct Call {
    const void* a = nullptr;
    void* d = nullptr;
    std::size_t workspace_bytes = 0;
    float beta = 0;
  };
  cublasStatus_t multiply(const cublasLtMatmulAlgo_t& algorithm, const Call& call) {
    const float one = 1;
    return cublasLtMatmul(handle, product, &one, call.a, of_a, b.data(), of_b, &call.beta, call.d,
                          of_d, call.d, of_d, &algorithm, workspace.data(), call.workspace_bytes,
                          static_cast<cudaStream_t>(stream.handle()));
  }
  Call fine() { return {a.data(), d.data(), workspace.bytes(), 0}; }
  std::vector<float> result() {
    std::vector<float> values(static_cast<std::size_t>(kM * kN));
    copy_bytes(stream, reinterpret_cast<std::byte*>(values.data()), d.data(), d.bytes());
    stream.synchronize();
    return values;
  }

  Stream stream{kCuda};
  Memory a{kM * kK * sizeof(float), kCuda}, b{kK * kN * sizeof(float), kCuda};
  Memory d{kM * kN * sizeof(float), kCuda}, workspace{1024, kCuda};
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t of_a = nullptr, of_b = nullptr, of_d = nullptr;
  cublasLtMatmulPreference_t wish = nullptr;
};

TEST_F(CublasLt, every_algorithm_computes_the_product_and_reads_no_d_for_nothing) {
  const std::uint32_t alignment = 16;
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    cublasLtMatmulPreferenceSetAttribute(wish, what, &alignment, sizeof alignment);
  }
  const auto algorithms = proposed();
  ASSERT_EQ(algorithms.size(), 3u);
  for (const auto& way : algorithms) {
    fill_bytes(stream, d.data(), 0xff, d.bytes());  // NaN
    ASSERT_EQ(multiply(way.algo, fine()), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(result(), std::vector<float>(15, 8));
    Call adding = fine();
    adding.beta = 1;
    ASSERT_EQ(multiply(way.algo, adding), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(result(), std::vector<float>(15, 16));
  }
}

TEST_F(CublasLt, proposes_what_the_alignment_the_workspace_and_the_schemes_allow) {
  const std::uint32_t alignment = 8;
  cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment,
                                       sizeof alignment);
  EXPECT_EQ(proposed().size(), 2u);
  const std::uint64_t bytes = 64;
  cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                       sizeof bytes);
  EXPECT_EQ(proposed().size(), 1u);
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &alignment, sizeof alignment),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLt, refuses_memory_that_is_not_the_devices_or_not_enough_or_misplaced) {
  const auto algorithms = proposed();  // vectors first, halves last
  const auto vectors = algorithms.front().algo, halves = algorithms.back().algo;
  std::vector<float> host(static_cast<std::size_t>(kM * kK));
  Call call = fine();
  call.a = host.data();
  EXPECT_EQ(multiply(vectors, call), CUBLAS_STATUS_INVALID_VALUE);
  call = fine();
  call.a = a.data() + 4;  // beyond the end by one element
  EXPECT_EQ(multiply(halves, call), CUBLAS_STATUS_INVALID_VALUE);
  call = fine();
  call.d = b.data();
  EXPECT_EQ(multiply(halves, call), CUBLAS_STATUS_INVALID_VALUE);
  call = fine();
  call.workspace_bytes = 64;
  EXPECT_EQ(multiply(halves, call), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(vectors, call), CUBLAS_STATUS_SUCCESS);
  const Memory wide(2 * a.bytes(), kCuda);
  call = fine();
  call.a = wide.data() + 8;
  EXPECT_EQ(multiply(vectors, call), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(halves, call), CUBLAS_STATUS_SUCCESS);
  stream.synchronize();
}

TEST_F(CublasLt, refuses_shapes_types_and_algorithms_that_do_not_fit) {
  const auto way = proposed().front().algo;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof transposed);
  EXPECT_TRUE(proposed().empty());
  EXPECT_EQ(multiply(way, fine()), CUBLAS_STATUS_INVALID_VALUE);
  const cublasOperation_t as_it_is = CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &as_it_is, sizeof as_it_is);
  EXPECT_EQ(multiply({{1, 2, 3, 4, 5, 6, 7, 8}}, fine()), CUBLAS_STATUS_INVALID_VALUE);
  const cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
  EXPECT_EQ(multiply(way, fine()), CUBLAS_STATUS_INVALID_VALUE);  // without the bias itself
  const std::int32_t narrow = CUDA_R_16BF;
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &narrow,
                                 sizeof narrow);
  EXPECT_EQ(multiply(way, fine()), CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatrixLayout_t low = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&low, CUDA_R_32F, 4, 4, 3), CUBLAS_STATUS_INVALID_VALUE);
}

// d [16, 32] = a' b in float8, with a [64, 16] and b [64, 32]; what is changed one at a time is
// what a product must not have.
struct Float8Product {
  cudaDataType_t of_a = CUDA_R_8F_E4M3, of_b = CUDA_R_8F_E5M2, of_d = CUDA_R_16BF;
  cublasOperation_t turn_a = CUBLAS_OP_T, turn_b = CUBLAS_OP_N;
  cudaDataType_t scale = CUDA_R_32F;
  std::uint64_t n = 32, k = 64;
};

cublasStatus_t verdict(const Float8Product& x) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, x.scale);
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &x.turn_a, sizeof x.turn_a);
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &x.turn_b, sizeof x.turn_b);
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  const auto layout = [](cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                         std::uint64_t columns) {
    cublasLtMatrixLayoutCreate(made, type, rows, columns, static_cast<std::int64_t>(rows));
  };
  const bool turned_a = x.turn_a == CUBLAS_OP_T, turned_b = x.turn_b == CUBLAS_OP_T;
  layout(&a, x.of_a, turned_a ? x.k : 16, turned_a ? 16 : x.k);
  layout(&b, x.of_b, turned_b ? x.n : x.k, turned_b ? x.k : x.n);
  layout(&d, x.of_d, 16, x.n);
  cublasLtMatmulPreference_t wish = nullptr;
  cublasLtMatmulPreferenceCreate(&wish);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, wish, 1, &found, &count);
  EXPECT_EQ(count, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
  cublasLtMatmulPreferenceDestroy(wish);
  for (const cublasLtMatrixLayout_t each : {a, b, d}) cublasLtMatrixLayoutDestroy(each);
  cublasLtMatmulDescDestroy(product);
  cublasLtDestroy(handle);
  return status;
}

TEST(CublasLtInFloat8, takes_only_what_lies_along_the_sum_in_sixteens_and_one_e4m3) {
  EXPECT_EQ(verdict({}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(verdict({.of_d = CUDA_R_32F}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(verdict({.of_a = CUDA_R_8F_E5M2, .of_b = CUDA_R_8F_E4M3}), CUBLAS_STATUS_SUCCESS);
  for (const Float8Product& wrong :
       {Float8Product{.of_a = CUDA_R_8F_E5M2}, Float8Product{.of_b = CUDA_R_16BF},
        Float8Product{.of_a = CUDA_R_16BF}, Float8Product{.of_d = CUDA_R_8F_E4M3},
        Float8Product{.turn_a = CUBLAS_OP_N}, Float8Product{.turn_b = CUBLAS_OP_T},
        Float8Product{.scale = CUDA_R_64F}, Float8Product{.n = 24}, Float8Product{.k = 40}}) {
    EXPECT_EQ(verdict(wrong), CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_F(CublasLt, scales_factors_in_float8_alone) {
  const auto way = proposed().front().algo;
  const void* const scale = b.data();
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale,
                                 sizeof scale);
  EXPECT_EQ(multiply(way, fine()), CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace trireme
