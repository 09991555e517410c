#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/ops/cuda/blaslt.h"
#include "model/ops/into.h"
#include "model/tensor/dtype.h"
#include "model/tensor/float8.h"

namespace trireme::ops::cuda {

// One matrix product: c [m, n] = or += a [m, k] b [k, n], row-major and dense. Everything an
// algorithm depends on.
struct MatMulShape {
  bool transpose_a = false;
  bool transpose_b = false;
  Into into = Into::kReplace;
  bool bias = false;
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::int64_t m = 0, n = 0, k = 0;
  int alignment = 16;  // bytes that every address is a multiple of, 16 at most
  // Of factors in float8; `in` is then the bias's. cuBLASLt has these as nt only.
  std::optional<Float8Format> float8_a = {}, float8_b = {};
  bool operator==(const MatMulShape&) const = default;
};

struct MatMulHash {
  std::size_t operator()(const MatMulShape& s) const;
};

// The class of shapes that share a choice: "float32 nt 256 2560 768 add".
std::string choice_key(const MatMulShape& shape);

struct MatMul {
  MatMulShape shape;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;     // [n] of the factors' dtype, or none
  const std::byte* a_scale = nullptr;  // a float32 on the device that float8 factors are
  const std::byte* b_scale = nullptr;  // multiplied with
  std::byte* c = nullptr;
};

// cuBLASLt's descriptions of one shape. The library counts in columns, in which a row-major
// matrix is its transpose: it computes c' = b' a', with the factors' places swapped.
// float32 is multiplied in float32 (no TF32), bfloat16 and float16 summed in float32.
class MatMulPlan {
 public:
  explicit MatMulPlan(const MatMulShape& shape);

  struct Candidate {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace_bytes = 0;
  };
  // From the one the library thinks fastest, `most` at most; none that sums in an order of
  // its own from run to run.
  std::vector<Candidate> candidates(cublasLtHandle_t library, std::size_t workspace_bytes,
                                    int most) const;
  // Whether `algorithm` does this shape within the workspace.
  bool can_use(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm,
               std::size_t workspace_bytes) const;
  // Queues the product. What is added to is read from product.c, what comes out is written
  // to `out`, which may be product.c.
  void run(cublasLtHandle_t library, const MatMul& product, std::byte* out,
           const cublasLtMatmulAlgo_t& algorithm, std::byte* workspace, std::size_t workspace_bytes,
           cudaStream_t stream);

 private:
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, BlasLtRelease>;

  MatMulShape shape_;
  Owned<cublasLtMatmulDesc_t> product_;
  Owned<cublasLtMatrixLayout_t> left_, right_, result_;  // b', a' and c'
};

}  // namespace trireme::ops::cuda
